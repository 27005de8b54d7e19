import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readExposition, sampleLimit, type ForeignFamily } from "../../../src/lib/metrics/exposition.ts";
import { fc } from "../../support/fast-check.ts";

function read(text: string): ReadonlyMap<string, ForeignFamily> {
  const reading = readExposition(text);
  for (;;) {
    const step = reading.next();
    if (step.done === true) return step.value;
  }
}

/** Its samples as lines. */
const lines = (text: string): string[] =>
  [...read(text).values()].flatMap(({ samples }) =>
    samples.map(({ name, labels, value }) => `${name}{${labels}} ${value}`),
  );

describe("the metrics of another program", () => {
  it("have families by their declaration, of Prometheus and of OpenMetrics", () => {
    const found = read(
      [
        "# HELP time How long",
        "# TYPE time histogram",
        'time_bucket{le="+Inf"} 3 1700000000000',
        "time_sum 0.5",
        "time_count 3",
        "# TYPE asked counter",
        'asked_total{path="/a \\"b\\" \\\\"} 7 # {trace_id="x"} 1 1700000000',
        "plain 1",
        "# EOF",
      ].join("\r\n"),
    );
    assert.deepEqual(
      [...found.values()].map(({ name, type, help, samples }) => [name, type, help, samples.length]),
      [
        ["time", "histogram", "How long", 3],
        ["asked", "counter", undefined, 1],
        ["plain", "untyped", undefined, 1],
      ],
    );
    const [asked] = found.get("asked")?.samples ?? [];
    assert.deepEqual(asked, { name: "asked_total", labels: 'path="/a \\"b\\" \\\\"', value: "7" });
  });

  it("are none where the page is in another format", () => {
    for (const text of ["", "<html><body>a 1</body></html>", '{"a": 1}', "\0\0", "a", "a b", "1a 1"])
      assert.deepEqual(lines(text), [], JSON.stringify(text));
  });

  for (const [what, text] of [
    ["a label that is there twice", 'a{x="1",x="2"} 1'],
    ["a label that is there twice once it is renamed", 'a{slot="1",exported_slot="2"} 1'],
    ["a label for readers alone", 'a{__name__="b"} 1'],
    ["an open label", 'a{x="1} 1'],
    ["an open list of labels", 'a{x="1"'],
    ["no value", 'a{x="1"}'],
    ["a value that is no number", "a one"],
    ["a value that no reader can hold", "a 1e999"],
    ["a name of Berth", "berth_requests_total 1"],
    ["a line without end", `a{x="${"y".repeat(5000)}"} 1`],
  ] as const) {
    it(`pass over ${what}`, () => assert.deepEqual(lines(`${text}\ngood 1\n`), ["good{} 1"]));
  }

  it("keep each series once, and special numbers", () => {
    assert.deepEqual(lines("a 1\na 2\nb NaN\nc +Inf\nd -1.5e-3"), ["a{} 1", "b{} NaN", "c{} +Inf", "d{} -1.5e-3"]);
  });

  it("keep their own labels of our names under others", () => {
    assert.deepEqual(lines('a{slot="forged", x="1",} 1'), ['a{exported_slot="forged",x="1"} 1']);
  });

  it("end at a number of series", () => {
    const all = Array.from({ length: sampleLimit + 50 }, (_each, nth) => `a{x="${nth}"} 1`).join("\n");
    assert.equal(lines(all).length, sampleLimit);
  });

  it("are whole lines, whatever the text", () => {
    const part = fc.constantFrom(
      "a",
      "{",
      "}",
      '"',
      "=",
      ",",
      " ",
      "1",
      "\n",
      "\\",
      "# TYPE a gauge",
      'x="y"',
      "\u2028",
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), (parts) => {
        for (const line of lines(parts.join(""))) assert.match(line, /^[\w:]+\{(\w+="(?:[^"\\\n]|\\.)*",?)*\} \S+$/);
      }),
    );
  });
});
