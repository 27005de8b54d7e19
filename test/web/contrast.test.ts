import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";

const css = readFileSync(new URL("../../web/shared/tokens.css", import.meta.url), "utf8");

/** The light and the dark value of a colour. */
function colour(name: string): readonly [string, string] {
  const found = new RegExp(`--${name}: light-dark\\((#[0-9a-f]+), (#[0-9a-f]+)\\)`).exec(css);
  assert.ok(found, `--${name} has two colours`);
  return [found[1] ?? "", found[2] ?? ""];
}

/** https://www.w3.org/TR/WCAG22/#dfn-relative-luminance */
function luminance(hex: string): number {
  const digits = hex.length === 4 ? hex.slice(1).replaceAll(/./g, "$&$&") : hex.slice(1);
  const [red = 0, green = 0, blue = 0] = [0, 2, 4].map((at) => {
    const value = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function ratio(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].toSorted((first, second) => second - first);
  return (light + 0.05) / (dark + 0.05);
}

const pairs: readonly (readonly [string, string])[] = [
  ...["ground", "raised", "sunken"].flatMap((ground) =>
    ["text", "text-2", "accent", "good", "busy", "bad", "lent"].map((text) => [text, ground] as const),
  ),
  ...["good", "busy", "bad", "lent"].map((state) => [state, `${state}-soft`] as const),
  ["accent", "accent-soft"],
  ["text", "accent-soft"],
  ["on-accent", "accent"],
  ["on-accent", "accent-hover"],
];

for (const [text, ground] of pairs)
  it(`${text} can be read on ${ground}, light and dark`, () => {
    for (const theme of [0, 1] as const) {
      const found = ratio(colour(text)[theme], colour(ground)[theme]);
      assert.ok(found >= 4.5, `${theme === 0 ? "light" : "dark"}: ${found.toFixed(2)}`);
    }
  });
