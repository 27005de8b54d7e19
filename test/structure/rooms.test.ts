import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { layers } from "./layers.ts";
import { drawnArrows, lintRooms, pairs, reached, rooms, type Arrows } from "./rooms.ts";
import { read, repositoryFiles } from "./tree.ts";

const sources = new Map(
  repositoryFiles()
    .filter((path) => path.startsWith("src/") && path.endsWith(".ts"))
    .map((path) => [path.slice("src/".length), read(path) ?? ""]),
);

describe("rooms", () => {
  for (const [layer, table] of Object.entries(rooms)) {
    it(`of ${layer} import each other as the table says, and the table names no other arrow`, () => {
      assert.deepEqual(lintRooms(sources, layer, table), []);
    });

    it(`of ${layer} are drawn in docs/architecture.md`, () => {
      const { solid, dotted } = drawnArrows(chartBelow(`### Rooms of the ${layer}`));
      assert.deepEqual(solid.toSorted(), pairs(table.arrows).toSorted());
      assert.deepEqual(dotted, []);
    });
  }

  it("have a drawing of the layers whose arrows lead to what a layer may import, and nowhere else", () => {
    const { solid, dotted } = drawnArrows(chartBelow("## Layers"));
    const tree = arrowsOf(solid);
    for (const [name, { layers: allowed }] of Object.entries(layers)) {
      assert.deepEqual([...reached(tree, name)].toSorted(), allowed.toSorted(), name);
    }
    const all = arrowsOf([...solid, ...dotted]);
    for (const [name, { dynamic = [], modules = [] }] of Object.entries(layers)) {
      const onDemand = new Set([...dynamic, ...modules.map((path) => path.split("/")[0] ?? "")]);
      const missing = [...onDemand].filter((other) => !reached(all, name).has(other));
      assert.deepEqual(missing, [], name);
      for (const to of arrowsOf(dotted)[name] ?? []) assert.ok(onDemand.has(to), `${name} → ${to} is not in the table`);
    }
  });

  const table = { arrows: { top: ["a"], a: ["b"], b: [] }, types: { b: ["a"] } };
  const whole = {
    "gateway/main.ts": 'import { a } from "./a/a.ts";\nimport { b } from "./b/b.ts";\n',
    "gateway/a/a.ts": 'import { b } from "../b/b.ts";\n',
    "gateway/b/b.ts": 'import type { A } from "../a/a.ts";\nimport "../../lib/x.ts";\n',
  };
  const planted: readonly (readonly [what: string, files: Record<string, string>, problems: readonly string[]])[] = [
    ["nothing where imports follow the arrows", {}, []],
    [
      "a value where types alone are allowed",
      { "gateway/b/b.ts": 'import { a } from "../a/a.ts";\n' },
      ["gateway/b/b.ts:1: the room b may name the types only of a"],
    ],
    [
      "an import against the arrows, a type too",
      { "gateway/a/c.ts": 'import type { M } from "../main.ts";\n' },
      ["gateway/a/c.ts:1: the room a may not import top"],
    ],
    ["a folder that the table does not have", { "gateway/c/c.ts": "" }, ["gateway/c/c.ts: c is no room of gateway"]],
    ["an arrow that no import needs", { "gateway/a/a.ts": "" }, ["gateway: no import needs the arrow a → b"]],
  ];
  for (const [what, files, problems] of planted) {
    it(`finds ${what}`, () => {
      assert.deepEqual(lintRooms(new Map(Object.entries({ ...whole, ...files })), "gateway", table), problems);
    });
  }

  it("have no circle, and no arrow that others make needless", () => {
    const files = {
      "gateway/a/a.ts": 'import "../b/b.ts";\nimport "../c/c.ts";\n',
      "gateway/b/b.ts": 'import "../c/c.ts";\n',
    };
    const found = (arrows: Arrows, more: Record<string, string> = {}): string[] =>
      lintRooms(new Map(Object.entries({ ...files, ...more })), "gateway", { arrows, types: {} });
    assert.deepEqual(found({ a: ["b", "c"], b: ["c"], c: [] }), ["a → c: other arrows lead there already"]);
    assert.deepEqual(found({ a: ["b"], b: ["c"], c: ["b"] }, { "gateway/c/c.ts": 'import "../b/b.ts";\n' }), [
      "b: its arrows lead back to it",
      "c: its arrows lead back to it",
    ]);
  });
});

/** The first Mermaid chart below a heading of docs/architecture.md. */
function chartBelow(heading: string): string {
  const [, section = ""] = (read("docs/architecture.md") ?? "").split(`\n${heading}\n`);
  return /```mermaid\n([\s\S]*?)```/.exec(section)?.[1] ?? "";
}

function arrowsOf(drawn: readonly string[]): Record<string, string[]> {
  const arrows: Record<string, string[]> = {};
  for (const [from = "", to = ""] of drawn.map((pair) => pair.split(" → "))) (arrows[from] ??= []).push(to);
  return arrows;
}
