import assert from "node:assert/strict";
import { posix } from "node:path";
import { describe, it } from "node:test";
import { importsOf } from "./imports.ts";
import { lintLayers } from "./layers.ts";
import { read, repositoryFiles } from "./tree.ts";

describe("layers", () => {
  it("are kept by every module of src", () => {
    const files = repositoryFiles().filter((path) => path.startsWith("src/") && path.endsWith(".ts"));
    assert.ok(files.length > 50, "the sources were found");
    const sources = new Map(files.map((path) => [path.slice("src/".length), read(path) ?? ""]));
    assert.deepEqual(lintLayers(sources), []);
  });

  it("keep the operator from everything that one kind of runtime has: it decides by traits", () => {
    const files = repositoryFiles().filter((path) => path.startsWith("src/operator/") && path.endsWith(".ts"));
    const found = files.flatMap((file) =>
      importsOf(read(file) ?? "").flatMap(({ specifier, line }) => {
        const target = specifier.startsWith(".") ? posix.join(posix.dirname(file), specifier) : "";
        return /^src\/runtimes\/(?:process|docker|kubernetes)\//.test(target) ? [`${file}:${line}: ${target}`] : [];
      }),
    );
    assert.deepEqual(found, []);
  });

  it("keep password hashing out of the gateway: nobody can make it hash", () => {
    const files = repositoryFiles().filter((path) => path.startsWith("src/gateway/") && path.endsWith(".ts"));
    const reached = new Set(files);
    for (const file of reached) {
      for (const { specifier, isTypeOnly } of importsOf(read(file) ?? "")) {
        assert.notEqual(specifier, "bcrypt", file);
        if (!isTypeOnly && specifier.startsWith(".")) reached.add(posix.join(posix.dirname(file), specifier));
      }
    }
    assert.ok(reached.has("src/store/auth/tokens.ts"), "imports were followed");
    assert.ok(importsOf(read("src/store/auth/admin.ts") ?? "").some(({ specifier }) => specifier === "bcrypt"));
    assert.equal(reached.has("src/store/auth/admin.ts"), false);
  });

  const planted: readonly (readonly [what: string, files: Record<string, string>, problems: readonly string[]])[] = [
    [
      "an arrow that points up",
      { "api/a.ts": 'import { b } from "../lib/b.ts";\n', "lib/b.ts": "" },
      ["api/a.ts:1: api may not import lib"],
    ],
    [
      "operator and gateway that know each other, by type, re-export or dynamic import",
      {
        "gateway/a.ts":
          'import type { B } from "../operator/b.ts";\nexport { b } from "../operator/b.ts";\nawait import("../operator/b.ts");\nlet c: import("../operator/b.ts").B;\n',
        "operator/b.ts": 'export * from "../gateway/a.ts";\n',
      },
      [
        "gateway/a.ts:1: gateway may not import operator",
        "gateway/a.ts:2: gateway may not import operator",
        "gateway/a.ts:3: gateway may not import operator",
        "gateway/a.ts:4: gateway may not import operator",
        "operator/b.ts:1: operator may not import gateway",
      ],
    ],
    [
      "a part of another layer beside the part that is allowed",
      {
        "gateway/a.ts":
          'import { x } from "../runtimes/logs/engine-logs.ts";\nimport { y } from "../runtimes/process.ts";\n',
        "runtimes/logs/engine-logs.ts": "",
        "runtimes/process.ts": "",
      },
      ["gateway/a.ts:2: gateway may not import runtimes"],
    ],
    [
      "a static import where program must wait until it is needed",
      {
        "program/a.ts":
          'import type { O } from "../operator/o.ts";\nimport {\n  type P,\n  o,\n} from "../operator/o.ts";\nawait import("../operator/o.ts");\n',
        "operator/o.ts": "",
      },
      ["program/a.ts:2: program imports operator dynamically only"],
    ],
    [
      "a package outside its column",
      { "engines/a.ts": 'import { z } from "zod";\nimport x from "@fastify/cors/y";\nimport "node:fs";\n' },
      [
        "engines/a.ts:1: engines may not use the package zod",
        "engines/a.ts:2: engines may not use the package @fastify/cors",
      ],
    ],
    [
      "a value of a package whose types alone are allowed",
      {
        "gateway/a.ts": 'import type { Logger } from "pino";\nimport { pino } from "pino";\nimport f from "fastify";\n',
      },
      ["gateway/a.ts:2: gateway may name the types of pino only"],
    ],
    [
      "what it cannot read or find, and a directory that is no layer",
      { "lib/a.ts": 'await import(name);\nimport "./gone.ts";\n', "misc/b.ts": "" },
      [
        "lib/a.ts:1: a dynamic import must name its module literally",
        "lib/a.ts:2: ./gone.ts leads to no module of src",
        "misc/b.ts: misc is no layer",
      ],
    ],
  ];
  for (const [what, files, problems] of planted) {
    it(`finds ${what}`, () => assert.deepEqual(lintLayers(new Map(Object.entries(files))), problems));
  }

  it("does not take comments and texts for imports", () => {
    const source =
      '/*\nimport "a";\n*/\n// import "b";\nconst glob = "/v1/*";\nconst text = `import("c")`.length; /* */\nexport const d = "e";\n';
    assert.deepEqual(
      importsOf(source).map(({ specifier }) => specifier),
      ["c"],
    );
  });
});
