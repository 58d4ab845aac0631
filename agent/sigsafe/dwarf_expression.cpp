// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/dwarf_expression.h"

namespace clusterprof::agent {
namespace {

class StackMachine {
 public:
  StackMachine(Bytes expression, const Machine& machine) noexcept
      : machine_(machine), expression_(expression), reader_{expression.begin, expression.end} {}

  Evaluation push(std::uint64_t value) noexcept {
    if (depth_ == kMaxDepth) return Evaluation::kFailed;
    stack_[depth_++] = value;
    return Evaluation::kOk;
  }

  Evaluation run(std::uint64_t& result) noexcept {
    constexpr unsigned kMaxOperations = 1024;  // an expression may loop
    for (unsigned operations = 0; reader_.position < reader_.end; ++operations) {
      // Room for one more value, whatever the operation.
      if (operations == kMaxOperations || depth_ == kMaxDepth) return Evaluation::kFailed;
      const Evaluation done = execute(reader_.byte());
      if (done != Evaluation::kOk) return done;
    }
    if (!reader_.ok || depth_ == 0) return Evaluation::kFailed;
    result = top();
    return Evaluation::kOk;
  }

 private:
  static constexpr unsigned kMaxDepth = 32;

  std::uint64_t& top(unsigned below = 0) noexcept { return stack_[depth_ - 1 - below]; }

  static Evaluation failed_unless(bool good) noexcept { return good ? Evaluation::kOk : Evaluation::kFailed; }

  Evaluation execute(std::uint8_t opcode) noexcept {
    if (opcode >= 0x30 && opcode <= 0x4f) return push(opcode - 0x30u);           // lit0...31
    if (opcode >= 0x70 && opcode <= 0x8f) return push_register(opcode - 0x70u);  // breg0...31
    switch (opcode) {
      case 0x03:
      case 0x08:
      case 0x09:
      case 0x0a:
      case 0x0b:
      case 0x0c:
      case 0x0d:
      case 0x0e:
      case 0x0f:
      case 0x10:
      case 0x11:
        return push(constant(opcode));
      case 0x12:
      case 0x13:
      case 0x14:
      case 0x15:
      case 0x16:
      case 0x17:
        return rearrange(opcode);
      case 0x06:
      case 0x19:
      case 0x1f:
      case 0x20:
      case 0x23:
      case 0x94:
        return failed_unless(change_top(opcode));
      case 0x28:
      case 0x2f:
        return failed_unless(jump(opcode == 0x28));
      case 0x96:  // nop
        return Evaluation::kOk;
      default:
        return failed_unless(combine(opcode));
    }
  }

  Evaluation push_register(std::uint32_t number) noexcept {
    const std::int64_t offset = reader_.sleb();
    if (number >= kDwarfRegisters) return Evaluation::kFailed;
    if ((machine_.known >> number & 1) == 0) return Evaluation::kUnknownRegister;
    return push(machine_.value[number] + static_cast<std::uint64_t>(offset));
  }

  std::uint64_t constant(std::uint8_t opcode) noexcept {
    switch (opcode) {
      case 0x08:
        return reader_.byte();
      case 0x09:
        return static_cast<std::uint64_t>(std::int64_t{reader_.fixed<std::int8_t>()});
      case 0x0a:
        return reader_.fixed<std::uint16_t>();
      case 0x0b:
        return static_cast<std::uint64_t>(std::int64_t{reader_.fixed<std::int16_t>()});
      case 0x0c:
        return reader_.fixed<std::uint32_t>();
      case 0x0d:
        return static_cast<std::uint64_t>(std::int64_t{reader_.fixed<std::int32_t>()});
      case 0x10:
        return reader_.uleb();
      case 0x11:
        return static_cast<std::uint64_t>(reader_.sleb());
      default:  // addr, const8u, const8s
        return reader_.fixed<std::uint64_t>();
    }
  }

  Evaluation rearrange(std::uint8_t opcode) noexcept {
    switch (opcode) {
      case 0x12:  // dup
        return depth_ < 1 ? Evaluation::kFailed : push(top());
      case 0x13:  // drop
        if (depth_ < 1) return Evaluation::kFailed;
        --depth_;
        return Evaluation::kOk;
      case 0x14:  // over
        return depth_ < 2 ? Evaluation::kFailed : push(top(1));
      case 0x15: {  // pick
        const std::uint8_t index = reader_.byte();
        return index >= depth_ ? Evaluation::kFailed : push(top(index));
      }
      case 0x16:  // swap
        if (depth_ < 2) return Evaluation::kFailed;
        swap(top(), top(1));
        return Evaluation::kOk;
      default:  // rot
        if (depth_ < 3) return Evaluation::kFailed;
        swap(top(), top(1));
        swap(top(1), top(2));
        return Evaluation::kOk;
    }
  }

  static void swap(std::uint64_t& a, std::uint64_t& b) noexcept {
    const std::uint64_t before = a;
    a = b;
    b = before;
  }

  bool change_top(std::uint8_t opcode) noexcept {
    if (depth_ < 1) return false;
    switch (opcode) {
      case 0x06:  // deref
        return load_word(machine_, top(), top());
      case 0x19:  // abs
        if (static_cast<std::int64_t>(top()) < 0) top() = 0 - top();
        return true;
      case 0x1f:  // neg
        top() = 0 - top();
        return true;
      case 0x20:  // not
        top() = ~top();
        return true;
      case 0x23:  // plus_uconst
        top() += reader_.uleb();
        return true;
      default:  // deref_size
        return load_top(reader_.byte());
    }
  }

  bool load_top(unsigned bytes) noexcept {
    if (bytes < 1 || bytes > 8 || !load_word(machine_, top(), top())) return false;
    if (bytes < 8) top() &= (std::uint64_t{1} << bytes * 8) - 1;
    return true;
  }

  bool jump(bool if_not_zero) noexcept {
    const std::int16_t distance = reader_.fixed<std::int16_t>();
    if (if_not_zero) {
      if (depth_ < 1) return false;
      if (stack_[--depth_] == 0) return true;
    }
    if (!reader_.ok || distance < expression_.begin - reader_.position ||
        distance > expression_.end - reader_.position)
      return false;
    reader_.position += distance;
    return true;
  }

  // Puts the result of an operation in the place of its two operands. False for an unknown operation, too.
  bool combine(std::uint8_t opcode) noexcept {
    if (depth_ < 2) return false;
    const std::uint64_t right = top(), left = top(1);
    --depth_;
    return compute(opcode, left, right, top()) || compare(opcode, left, right, top());
  }

  static bool compute(std::uint8_t opcode, std::uint64_t left, std::uint64_t right,
                      std::uint64_t& result) noexcept {
    switch (opcode) {
      case 0x1a:
        result = left & right;
        return true;
      case 0x1b:  // div, signed
        return divide(left, right, result);
      case 0x1c:
        result = left - right;
        return true;
      case 0x1d:  // mod, unsigned
        if (right == 0) return false;
        result = left % right;
        return true;
      case 0x1e:
        result = left * right;
        return true;
      case 0x21:
        result = left | right;
        return true;
      case 0x22:
        result = left + right;
        return true;
      case 0x24:
        result = right < 64 ? left << right : 0;
        return true;
      case 0x25:
        result = right < 64 ? left >> right : 0;
        return true;
      case 0x26:
        result = static_cast<std::uint64_t>(static_cast<std::int64_t>(left) >> (right < 64 ? right : 63));
        return true;
      case 0x27:
        result = left ^ right;
        return true;
      default:
        return false;
    }
  }

  static bool divide(std::uint64_t left, std::uint64_t right, std::uint64_t& result) noexcept {
    if (right == 0) return false;
    const auto divisor = static_cast<std::int64_t>(right);
    result = divisor == -1 ? 0 - left : static_cast<std::uint64_t>(static_cast<std::int64_t>(left) / divisor);
    return true;
  }

  static bool compare(std::uint8_t opcode, std::uint64_t left, std::uint64_t right,
                      std::uint64_t& result) noexcept {
    const auto a = static_cast<std::int64_t>(left), b = static_cast<std::int64_t>(right);
    switch (opcode) {
      case 0x29:
        result = a == b;
        return true;
      case 0x2a:
        result = a >= b;
        return true;
      case 0x2b:
        result = a > b;
        return true;
      case 0x2c:
        result = a <= b;
        return true;
      case 0x2d:
        result = a < b;
        return true;
      case 0x2e:
        result = a != b;
        return true;
      default:
        return false;
    }
  }

  const Machine& machine_;
  Bytes expression_;
  DwarfReader reader_;
  unsigned depth_ = 0;
  std::uint64_t stack_[kMaxDepth];
};

}  // namespace

Evaluation evaluate(Bytes expression, const Machine& machine, bool has_initial, std::uint64_t initial,
                    std::uint64_t& out) noexcept {
  StackMachine stack_machine(expression, machine);
  if (has_initial) stack_machine.push(initial);
  return stack_machine.run(out);
}

}  // namespace clusterprof::agent
