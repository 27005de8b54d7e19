import assert from "node:assert/strict";
import { it } from "node:test";
import { byteFigure, byteText } from "../../src/api/byte-text.ts";

const rows: readonly (readonly [bytes: number, text: string, figure: string])[] = [
  [0, "0 B", "0 B"],
  [1023, "1023 B", "1023 B"],
  [1024, "1 KiB", "1.0 KiB"],
  [1_600_000, "2 MiB", "1.5 MiB"],
  [4_617_089_843, "4.3 GiB", "4.3 GiB"],
  [150 * 1024 ** 3, "150 GiB", "150.0 GiB"],
  [5000 * 1024 ** 4, "5000 TiB", "5000.0 TiB"],
  // Rates are fractions of bytes.
  [512.4, "512 B", "512 B"],
];

it("a size is written for a sentence and for a table", () => {
  for (const [bytes, text, figure] of rows) assert.deepEqual([byteText(bytes), byteFigure(bytes)], [text, figure]);
});
