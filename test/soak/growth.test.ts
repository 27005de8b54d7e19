import assert from "node:assert/strict";
import { it } from "node:test";
import { growth, type Figures } from "./growth.ts";

const row = (nth: number, more: Partial<Figures> = {}): Figures => ({
  gatewayMiB: 150 + (nth % 3),
  operatorMiB: 100,
  descriptors: 60 + (nth % 5),
  files: 40,
  lagMs: nth,
  ...more,
});
const rows = (more: (nth: number) => Partial<Figures>): Figures[] =>
  Array.from({ length: 20 }, (_, nth) => row(nth, more(nth)));

it("a soak reports figures that keep growing and figures that could not be read, and no others", () => {
  assert.deepEqual(growth(rows(() => ({}))), []);
  assert.deepEqual(growth(rows((nth) => ({ gatewayMiB: nth < 6 ? 90 : 160 }))), [], "what is taken at first");
  assert.deepEqual(growth(rows((nth) => ({ descriptors: 50 + nth * 10 }))), ["descriptors grew from 140 to 210"]);
  assert.deepEqual(growth(rows((nth) => ({ files: 40 + nth * 5 }))), ["files grew from 85 to 120"]);
  assert.deepEqual(growth(rows((nth) => ({ lagMs: nth < 12 ? 10 : 500 }))), ["lagMs grew from 10 to 500"]);
  assert.deepEqual(growth(rows(() => ({ operatorMiB: Number.NaN }))), ["operatorMiB grew from NaN to NaN"]);
});
