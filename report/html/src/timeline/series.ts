// SPDX-License-Identifier: BSD-3-Clause
// The series of values over time that a run recorded, in the order in which the page shows them.
import { CATEGORY_TITLES } from "../core/colours";
import { percent, seriesTitle, type SeriesUnit, seriesUnit, seriesValue } from "../core/format";
import { CATEGORIES, type Category, type Model } from "../core/model";
import { rowShares } from "../core/over_time";

export interface Series {
  index: number;
  name: string;
  title: string;
  unit: SeriesUnit;
  scale: number; // value of a bin to its unit
  category: Category | null;
  rows: Float32Array; // in the order of the data; of categories their shares
}

export const limitText = (limit: number, unit: SeriesUnit): string =>
  unit === "share" ? percent(limit, limit < 0.095 ? 1 : 0) : seriesValue(limit, unit);

// The series that any rank has values of: categories first, then what every run has, then counters.
export function seriesOf(model: Model): Series[] {
  const { axis } = model.header;
  const shares = rowShares(model);
  const all = model.header.series.map((info, index): Series => {
    const unit = seriesUnit(info.name, info.maximum);
    const category = CATEGORIES.find((c) => info.name === `${c}_ns`) ?? null;
    return {
      index,
      name: info.name,
      title: category ? CATEGORY_TITLES[category] : seriesTitle(info.name),
      unit,
      scale: category || unit === "bytes" ? 1 : unit === "share" ? 1e-9 / axis.bin_s : 1 / axis.bin_s,
      category,
      rows: (category && shares[CATEGORIES.indexOf(category)]) ?? model.f32(`series_${index}`),
    };
  });
  const present = all.filter((series) => series.rows.some((value) => value > 0));
  // Categories, what every run has, counters.
  const known = [
    ...CATEGORIES.map((category) => `${category}_ns`),
    "cpu_user_ns",
    "cpu_system_ns",
    "rss_bytes",
    "read_bytes",
    "write_bytes",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
  ];
  const order = (series: Series) => (known.includes(series.name) ? known.indexOf(series.name) : known.length);
  return present.sort((a, b) => order(a) - order(b) || a.index - b.index);
}
