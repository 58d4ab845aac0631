# SPDX-License-Identifier: BSD-3-Clause
"""Reads and checks spec/mpi_functions.toml. The comment at the head of that file explains the fields."""

import re
import tomllib
from dataclasses import dataclass

CLASSES = ("p2p", "collective", "completion", "rma", "io", "management")
CHAPTERS = {
    "environment": "environment",
    "point-to-point": "point_to_point",
    "collectives": "collectives",
    "neighbourhood collectives": "neighbourhood",
    "one-sided": "one_sided",
    "files": "files",
    "groups and communicators": "communicators",
    "topologies": "topologies",
    "process creation": "processes",
    "datatypes": "datatypes",
    "info": "info",
    "sessions": "sessions",
    "tool interface": "tool_interface",
}
REQUIRED = ("number", "name", "chapter", "class", "since", "prototype")
RULES = ("hand", "comm", "window", "file", "message", "new_comm", "new_window", "new_file",
         "new_message", "frees", "sent", "recv", "sent_at", "recv_at", "root", "in_place", "peer",
         "no_op", "request", "sends", "receives", "probes", "epoch", "sync", "agreed", "agreed_at_root")
FIELDS = REQUIRED + ("removed", "unwrapped") + RULES
NEW_COMM_KINDS = ("dup", "child", "group", "inter")
SYNC_CLASSES = ("barrier", "nxn", "1xn", "nx1", "scan")
EPOCHS = {"post": 2, "start": 2, "complete": 1, "wait": 1}  # and how many words
REQUEST_VERBS = ("starts", "initializes", "completes", "activates", "frees")
GROUP_FACTORS = ("peers", "members", "outs", "ins")
ARRAY_INDICES = ("", "me", "members", "outs", "ins")


class SpecError(Exception):
    """The specification contradicts itself."""


@dataclass(frozen=True)
class Argument:
    type: str  # without const and array brackets; "MPI_Status *" for arrays too
    name: str
    declaration: str

    @property
    def is_pointer(self):
        return self.type.endswith("*")

    @property
    def element(self):
        return self.type.rstrip("* ")


@dataclass(frozen=True)
class Factor:
    kind: str  # number, count, type, group
    name: str  # argument, digits or the group word
    index: str | None = None  # of arrays: "", me, members, outs, ins


def parse_argument(text):
    text = " ".join(text.split())
    match = re.fullmatch(r"(.*?)([A-Za-z_]\w*)((?:\[\d*\])*)", text)
    if not match or not match.group(1).strip():
        raise SpecError(f"cannot read the argument '{text}'")
    kind = re.sub(r"\bconst\b", "", match.group(1))
    stars = kind.count("*") + (1 if match.group(3) else 0)
    base = " ".join(kind.replace("*", " ").split())
    return Argument(base + (" " + "*" * stars if stars else ""), match.group(2), text)


def parse_prototype(text):
    """Returns (return type, name, [Argument]). A trailing "..." is left out."""
    match = re.fullmatch(r"([\w ]+?)\s+(MPI_\w+)\((.*)\)", text)
    if not match:
        raise SpecError(f"cannot read the prototype '{text}'")
    arguments = []
    inner = match.group(3).strip()
    if inner not in ("", "void"):
        arguments = [parse_argument(a) for a in inner.split(",") if a.strip() != "..."]
    return match.group(1), match.group(2), arguments


class Function:
    def __init__(self, fields):
        name = fields.get("name", "a function without a name")
        for field in fields:
            if field not in FIELDS:
                raise SpecError(f"{name}: unknown field '{field}'")
        for field in REQUIRED:
            if field not in fields:
                raise SpecError(f"{name}: '{field}' is missing")
        self.fields = fields
        self.number = fields["number"]
        self.name = name
        self.chapter = fields["chapter"]
        self.category = fields["class"]
        self.since = fields["since"]
        self.removed = fields.get("removed")
        self.unwrapped = fields.get("unwrapped")
        self.hand = fields.get("hand", False)
        self.prototype = fields["prototype"]
        try:
            self.returns, prototype_name, self.arguments = parse_prototype(self.prototype)
        except SpecError as error:
            raise SpecError(f"{name}: {error}") from None
        self.by_name = {a.name: a for a in self.arguments}
        if prototype_name != name:
            raise SpecError(f"{name}: the prototype is that of {prototype_name}")
        if len(self.by_name) != len(self.arguments):
            raise SpecError(f"{name}: two arguments of one name")
        if not isinstance(self.number, int) or self.number < 0:
            raise SpecError(f"{name}: bad number")
        if self.category not in CLASSES:
            raise SpecError(f"{name}: unknown class '{self.category}'")
        if self.chapter not in CHAPTERS:
            raise SpecError(f"{name}: unknown chapter '{self.chapter}'")
        if self.since not in ("3.1", "4.0", "4.1", "5.0"):
            raise SpecError(f"{name}: unknown 'since'")
        self.check_rules()

    def get(self, field, default=None):
        return self.fields.get(field, default)

    def fail(self, text):
        raise SpecError(f"{self.name}: {text}")

    def argument(self, name, types=None):
        if name not in self.by_name:
            self.fail(f"no argument '{name}' in the prototype")
        argument = self.by_name[name]
        if types is not None and argument.type not in types:
            self.fail(f"argument '{name}' is {argument.type}, not {' or '.join(types)}")
        return argument

    def two_words(self, field, first):
        words = self.fields[field].split()
        if len(words) != 2 or words[0] not in first:
            self.fail(f"bad {field} '{self.fields[field]}'")
        return words

    def check_object(self, field, kind):
        text = self.get(field)
        if text is not None:
            self.argument(text.lstrip("*"), (kind + " *",) if text.startswith("*") else (kind,))

    def check_rules(self):
        rules = [f for f in RULES if f in self.fields]
        if self.unwrapped is not None:
            if rules:
                self.fail(f"unwrapped, but has the rule '{rules[0]}'")
            return
        if self.returns != "int":
            self.fail("only functions returning int can be wrapped")
        if "..." in self.prototype:
            self.fail("a variadic function cannot be wrapped")
        self.check_object("comm", "MPI_Comm")
        self.check_object("window", "MPI_Win")
        self.check_object("file", "MPI_File")
        self.check_object("message", "MPI_Message")
        if sum(f in self.fields for f in ("comm", "window", "file", "message")) > 1:
            self.fail("more than one of comm, window, file, message")
        if self.get("new_comm"):
            words = self.fields["new_comm"].split()
            if len(words) not in (2, 3) or words[0] not in NEW_COMM_KINDS or words[0] in ("dup", "child") and words[2:]:
                self.fail(f"bad new_comm '{self.fields['new_comm']}'")
            kind = words[0]
            self.argument(words[1], ("MPI_Comm *",))
            for name in words[2:]:
                self.argument(name, ("char *",))
            if kind in ("dup", "child") and "comm" not in self.fields:
                self.fail("new_comm without its parent 'comm'")
        for field, kind in (("new_window", "MPI_Win *"), ("new_file", "MPI_File *"),
                            ("new_message", "MPI_Message *")):
            if field in self.fields:
                self.argument(self.fields[field], (kind,))
                if "comm" not in self.fields:
                    self.fail(f"{field} without 'comm'")
        if "frees" in self.fields:
            freed = self.argument(self.fields["frees"])
            if "*" + freed.name not in (self.get("comm"), self.get("window"), self.get("file")):
                self.fail("frees something that is not its comm, window or file")
        if "root" in self.fields:
            self.argument(self.fields["root"], ("int",))
        for field in ("sent_at", "recv_at"):
            if field in self.fields:
                if self.fields[field] not in ("root", "others", "members"):
                    self.fail(f"bad {field}")
                if "root" not in self.fields or field[:4] not in self.fields:
                    self.fail(f"{field} without root or {field[:4]}")
        if "no_op" in self.fields:
            self.argument(self.fields["no_op"], ("MPI_Op",))
        if "request" in self.fields:
            verb, argument = self.two_words("request", REQUEST_VERBS)
            self.argument(argument, ("MPI_Request *",))
            if verb in ("completes", "activates", "frees") and not self.hand:
                self.fail(f"request '{verb}' needs a wrapper by hand")
        self.substitutions()
        for field in ("sent", "recv"):
            if field in self.fields and self.fields[field] != "status":
                self.product(field)
        if self.get("recv") == "status" and self.request_verb() is None:
            self.argument("status", ("MPI_Status *",))
        if self.get("sent") == "status":
            self.fail("the size of what is sent cannot come from a status")
        if "peer" in self.fields:
            self.check_peer()
        self.check_events()
        for field in ("sent", "recv"):
            groups = any(f.kind == "group" or f.index is not None for f in self.product(field))
            if groups and "comm" not in self.fields:
                self.fail(f"'{field}' speaks of a group, but there is no comm")

    def check_events(self):
        if "sends" in self.fields:
            words = self.fields["sends"].split()
            if len(words) not in (2, 3) or words[2:] not in ([], ["synchronous"], ["partitioned"]):
                self.fail(f"bad sends '{self.fields['sends']}'")
            self.check_partitioned(words)
            for word in words[:2]:
                self.argument(word, ("int",))
            if self.get("peer") != f"to {words[0]}":
                self.fail("sends to somebody who is not the peer")
        if "receives" in self.fields:
            words = self.fields["receives"].split()
            if words == ["message"]:
                if self.get("message") != "*message":
                    self.fail("receives a message that it does not have")
            elif len(words) not in (2, 3) or words[2:] not in ([], ["partitioned"]):
                self.fail(f"bad receives '{self.fields['receives']}'")
            else:
                self.check_partitioned(words)
                for word in words[:2]:
                    self.argument(word, ("int",))
            if "recv" not in self.fields:
                self.fail("receives without 'recv'")
        if "probes" in self.fields:
            if self.fields["probes"] is not True:
                self.fail("bad probes")
            self.argument("status", ("MPI_Status *",))
        if ("sends" in self.fields or "probes" in self.fields or self.get("receives", "message") != "message") \
                and "comm" not in self.fields:
            self.fail("a message without 'comm'")
        if "epoch" in self.fields:
            words = self.fields["epoch"].split()
            if len(words) != EPOCHS.get(words[0] if words else None):
                self.fail(f"bad epoch '{self.fields['epoch']}'")
            if len(words) == 2:
                self.argument(words[1], ("MPI_Group",))
            if "window" not in self.fields:
                self.fail("an epoch without 'window'")
        if "sync" in self.fields:
            sync = self.fields["sync"]
            if sync not in SYNC_CLASSES:
                self.fail(f"unknown sync '{sync}'")
            if (sync in ("1xn", "nx1")) != ("root" in self.fields):
                self.fail(f"sync '{sync}' and 'root' do not go together")
            makes_its_own = self.get("new_comm", "").startswith("group ") and self.hand
            if self.name != "MPI_Finalize" and not makes_its_own and \
                    not any(f in self.fields for f in ("comm", "window", "file")):
                self.fail("sync without a communicator, window or file")
            if self.request_verb() in ("completes", "activates", "frees"):
                self.fail("sync belongs to the operation, not to what completes it")
        elif self.category == "collective" and self.chapter == "collectives":
            self.fail("a collective operation without 'sync'")
        for field in ("agreed", "agreed_at_root"):
            if field in self.fields and [(f.kind, f.index) for f in self.product(field)] != [("count", None), ("type", None)]:
                self.fail(f"bad {field} '{self.fields[field]}'")
        if "agreed" in self.fields and ("sync" not in self.fields or self.request_verb() not in (None, "starts")):
            self.fail("'agreed' is of operations that begin with the call")
        if "agreed_at_root" in self.fields and not {"agreed", "root"} <= self.fields.keys():
            self.fail("agreed_at_root without agreed or root")

    def check_partitioned(self, words):
        if words[2:] == ["partitioned"]:
            self.argument("partitions", ("int",))
            if self.request_verb() != "initializes":
                self.fail("partitioned, but initializes no request")

    def check_peer(self):
        peer = self.fields["peer"]
        if peer in ("each", "outs"):
            if "sent" not in self.fields:
                self.fail("a peer rule without 'sent'")
            product = self.product("sent")
            word = "peers" if peer == "each" else "outs"
            index = "" if peer == "each" else "outs"
            if not any(f.name == word and f.kind == "group" or f.index == index for f in product):
                self.fail(f"peer '{peer}' needs a sum over {word} in 'sent'")
            return
        word, argument = self.two_words("peer", ("to", "from", "both"))
        self.argument(argument, ("int",))
        if word in ("to", "both") and "sent" not in self.fields:
            self.fail("a peer rule without 'sent'")
        if word in ("from", "both") and self.get("recv") in (None, "status"):
            self.fail("a peer rule without 'recv'")

    def request_verb(self):
        return self.fields["request"].split()[0] if "request" in self.fields else None

    def request_argument(self):
        return self.fields["request"].split()[1]

    def product(self, field):
        """Returns the factors of 'sent' or 'recv' as a list of Factor, in the order of the specification."""
        text = self.get(field)
        if text is None or text == "status":
            return []
        factors = []
        for word in (w.strip() for w in text.split("*")):
            factors.append(self.factor(word, field))
        return factors

    def factor(self, word, field):
        if word.isdigit():
            return Factor("number", word)
        if word in GROUP_FACTORS:
            return Factor("group", word)
        match = re.fullmatch(r"(\w+)(?:\[(\w*)\])?", word)
        if not match:
            self.fail(f"cannot read '{word}' in '{field}'")
        argument = self.argument(match.group(1))
        index = match.group(2)
        if index is not None and index not in ARRAY_INDICES:
            self.fail(f"unknown index '{index}' in '{field}'")
        if argument.is_pointer != (index is not None):
            self.fail(f"'{word}' in '{field}': the argument is {argument.type}")
        if argument.element in ("int", "MPI_Count"):
            return Factor("count", argument.name, index)
        if argument.element == "MPI_Datatype":
            return Factor("type", argument.name, index)
        self.fail(f"'{word}' in '{field}' is neither a count nor a datatype")

    def substitutions(self):
        """Returns (buffer, {argument: Factor that replaces it}) of 'in_place', or None if there is no such field."""
        text = self.get("in_place")
        if text is None:
            return None
        buffer, colon, rest = text.partition(":")
        if not colon:
            self.fail("bad in_place")
        self.argument(buffer.strip(), ("void *",))
        replaced = {}
        for pair in rest.split(","):
            left, equals, right = (p.strip() for p in pair.partition("="))
            if not equals:
                self.fail("bad in_place")
            old, new = self.factor(left, "in_place"), self.factor(right, "in_place")
            if old.kind != new.kind or (old.index is not None and new.index != old.index):
                self.fail(f"in_place: '{left}' and '{right}' are of different kinds")
            replaced[old.name] = new
        return buffer.strip(), replaced


def load(text):
    """Returns all functions, sorted by number. Raises SpecError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(str(error)) from None
    if set(document) != {"function"}:
        raise SpecError("a top-level entry other than [[function]]")
    functions = [Function(fields) for fields in document["function"]]
    names = set()
    for position, function in enumerate(functions):
        if function.name in names:
            raise SpecError(f"{function.name} is there twice")
        names.add(function.name)
        if function.number != position:
            raise SpecError(f"{function.name}: number {function.number} at position {position}")
    return functions
