import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { navigation } from "../../site/navigation.ts";
import { isRecord } from "../../src/lib/record.ts";
import { lintCitations, lintLinks, lintRecords, tableRows, unreachable } from "./documents.ts";
import { layers } from "./layers.ts";
import { read, repositoryFiles } from "./tree.ts";

const files = new Map(repositoryFiles().map((path) => [path, read(path) ?? ""]));
const rowsOf = (path: string): string[][] => tableRows(files.get(path) ?? "");

describe("documents", () => {
  it("lead to what is there", () => assert.deepEqual(lintLinks(files), []));

  it("are all within reach of docs/README.md, and in the menu of the site", () => {
    assert.deepEqual(unreachable(files), []);
    const entries = navigation.flatMap((section) => section.entries);
    const told = entries.map((entry) => ("file" in entry ? entry.file : `${entry.folder}/README.md`));
    const folders = entries.flatMap((entry) => ("folder" in entry ? [`${entry.folder}/`] : []));
    const isInFolder = (path: string): boolean => folders.some((folder) => path.startsWith(folder));
    const pages = [...files.keys()].filter((path) => /^docs\/.*\.md$/.test(path) && path !== "docs/README.md");
    assert.deepEqual(
      told.filter((path) => path.startsWith("docs/")).toSorted(),
      pages.filter((path) => !isInFolder(path) || path.endsWith("/README.md")).toSorted(),
    );
    assert.deepEqual(
      told.filter((path) => !files.has(path)),
      [],
    );
  });

  it("have what comments cite", () => assert.deepEqual(lintCitations(files), []));

  it("give every decision record a number of its own", () => {
    assert.deepEqual(lintRecords(files), []);
    const two = { "docs/adr/0001-a.md": "# 1. A\n", "docs/adr/0001-b.md": "# 2. B\n" };
    assert.deepEqual(lintRecords(new Map(Object.entries(two))), [
      "docs/adr/0001-b.md: docs/adr/0001-a.md has that number",
      "docs/adr/0001-b.md: its title has another number",
    ]);
  });

  it("give a reason for every package", () => {
    const packages = ["package.json", "site/package.json"].flatMap((path) => {
      const { dependencies, devDependencies, optionalDependencies }: Record<string, unknown> = JSON.parse(
        files.get(path) ?? "",
      );
      return [dependencies, devDependencies, optionalDependencies].flatMap((each) =>
        isRecord(each) ? Object.keys(each) : [],
      );
    });
    const words = new Set(
      (files.get("docs/dependencies.md") ?? "")
        .toLowerCase()
        .split(/[\s,()|`]+/)
        .map(withoutStop),
    );
    assert.ok(packages.length > 10);
    assert.deepEqual(
      packages.filter((name) => !words.has(name)),
      [],
    );
  });

  for (const [path, column] of [
    ["AGENTS.md", 2],
    ["docs/architecture.md", 1],
  ] as const) {
    it(`${path} has the layers that the test checks`, () => {
      const told = rowsOf(path).filter(([name = ""]) => name in layers);
      assert.deepEqual(
        told.map(([name]) => name),
        Object.keys(layers),
      );
      for (const row of told) {
        const [name = ""] = row;
        const allowed = layers[name]?.layers.join(" ") || "–";
        assert.match(row[column] ?? "", new RegExp(`^${allowed}($|,| and )`), name);
      }
    });
  }

  it("docs/architecture.md has the function of a request as it is", () => {
    const [, quoted] = /```ts\n(async handle\(.*?\n\}\n)```/s.exec(files.get("docs/architecture.md") ?? "") ?? [];
    const [own] = /^ {2}async handle\(.*?^ {2}\}\n/ms.exec(files.get("src/gateway/proxy/handle.ts") ?? "") ?? [];
    assert.equal(quoted, own?.replaceAll(/^ {2}/gm, ""));
    assert.ok((own ?? "").split("\n").length <= 60, "it fits on one screen");
  });

  it("docs/architecture.md has the packages that the test checks", () => {
    for (const [name = "", , packages = ""] of rowsOf("docs/architecture.md")) {
      const allowed = layers[name]?.packages;
      if (allowed === undefined) continue;
      assert.deepEqual(packages === "–" ? [] : packages.split(", ").toSorted(), [...allowed].toSorted(), name);
    }
  });

  const planted: readonly (readonly [what: string, text: string, problems: readonly string[]])[] = [
    [
      "what is there",
      "[a](docs/a.md#one-two) `src/b.ts` `src/b` `src/` [x](https://x.test/#y) `src/*.ts` [s](#top)",
      [],
    ],
    ["a file that is gone", "[a](docs/z.md)", ["README.md: docs/z.md is not there"]],
    ["a heading that is gone", "[a](docs/a.md#three)", ["README.md: docs/a.md has no heading #three"]],
    ["a path that is gone", "`src/z.ts`", ["README.md: src/z.ts is not there"]],
    [
      "a path that a command names and that is gone",
      "```sh\ncp docs/a.md docs/z.md\n```",
      ["README.md: docs/z.md is not there"],
    ],
    [
      "a heading that is a comment of a command",
      "```sh\n# Top 2\n```\n[s](#top-2)",
      ["README.md:  has no heading #top-2"],
    ],
  ];
  for (const [what, text, problems] of planted) {
    it(`report ${what}`, () => {
      const around = { "docs/a.md": "# One, `two`\n", "src/b.ts": "" };
      assert.deepEqual(lintLinks(new Map(Object.entries({ ...around, "README.md": `# Top\n${text}` }))), problems);
    });
  }

  it("report sections and decisions that do not exist", () => {
    const cited = ["// DECISIONS 1 and", " 3, CONTRACT", ' "Errors", CONTRACT', ' "Gone"'].join("");
    const some = { "docs/decisions.md": "1. one\n2. two\n", "docs/contract.md": "| Errors | x |\n", "src/a.ts": cited };
    assert.deepEqual(lintCitations(new Map(Object.entries(some))), [
      "src/a.ts: there is no decision 3",
      "src/a.ts: the contract has no section Gone",
    ]);
  });
});

function withoutStop(word: string): string {
  return word.replace(/[.:;]$/, "");
}
