import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, it } from "node:test";
import { readBerthToml } from "../../../src/store/files/berth-toml.ts";
import { validateDirectory } from "../../../src/store/files/validate.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { directoryWith, type Files } from "./site.ts";

async function told(files: Files): Promise<unknown[]> {
  await using dir = await directoryWith(files);
  return (await validateDirectory(dir.path)).map(({ file, line, path, message }) => [
    basename(file),
    line,
    path?.join("."),
    message,
  ]);
}

const slot = (rest = ""): string => `${rest}\n[model]\ndefault = "m"\n`;

const foreign = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
const own = "apiVersion: berth.dev/v1alpha1\nkind: Slot\nmetadata: {name: a}\nspec: {model: {default: m}}\n";
const group = {
  "slots/a.toml": slot('group = "gpu"'),
  "slots/b.toml": slot('group = "gpu"\nload = "onDemand"\npinned = true'),
  "slots/c.toml": slot('group = "gpu"\nload = "onDemand"'),
};
const tooSmall = "has 1 place for 2 slots that never leave for another, being pinned or always loaded: a, b";
const large = `# ${"x".repeat(1024 ** 2)}`;
const tooLarge = "it is larger than 1 MiB, the limit of such a file";

const cases: Readonly<Record<string, readonly [files: Files, told: readonly unknown[]]>> = {
  "reports nothing about a valid directory": [
    { "slots/a.toml": slot("port = 8081"), "slots/b.toml": slot("port = 8082"), "berth.toml": "port = 80\n" },
    [],
  ],
  "leaves documents of other programs alone, also beside a manifest": [
    { "slots/x.yaml": foreign, "models/x.yaml": foreign, "slots/all.yaml": `${foreign}---\n${own}` },
    [],
  ],
  "names the budget that is smaller than the slots which never leave, and the place": [
    { ...group, "groups/gpu.toml": "max_wait_seconds = 5\n\n[budget]\nslots = 1\n" },
    [["gpu.toml", 4, "budget.slots", tooSmall]],
  ],
  "names the group whose usual budget is smaller than the slots which never leave": [
    { ...group, "groups/gpu.toml": "max_wait_seconds = 5\n" },
    [["gpu.toml", 1, "budget.slots", tooSmall]],
  ],
  "takes a budget of as many slots": [{ ...group, "groups/gpu.toml": "[budget]\nslots = 2\n" }, []],
  "takes a budget of memory": [{ ...group, "groups/gpu.toml": "[budget]\nmemory_bytes = 5\n" }, []],
  "refuses a budget of two kinds": [
    { "groups/gpu.toml": "[budget]\nslots = 1\nmemory_bytes = 5\n" },
    [["gpu.toml", 1, "budget", "has one kind: a number of slots, a number of bytes, or a device"]],
  ],
  "names files that are too large to be read": [
    { "slots/a.toml": large, "berth.toml": large },
    [
      ["berth.toml", undefined, undefined, `cannot be read: ${tooLarge}`],
      ["a.toml", undefined, undefined, `cannot be read (${tooLarge})`],
    ],
  ],
  "reports every problem of every file": [
    { "slots/a.toml": slot("enabld = true"), "slots/b.yaml": "model: {default: m}\nport: 1\n" },
    [
      ["a.toml", 1, "enabld", "unknown key; did you mean enabled?"],
      ["b.yaml", 2, "port", "must be at least 8081"],
    ],
  ],
  "reports problems of the settings": [
    { "berth.toml": "hold_seconds = 1\nprt = 1\n\nport = -1\n" },
    [
      ["berth.toml", 2, "prt", "is not a setting; did you mean port?"],
      ["berth.toml", 4, "port", "must be at least 0"],
    ],
  ],
};

describe("validating a directory", { concurrency: true }, () => {
  for (const [title, [files, expected]] of Object.entries(cases))
    it(title, async () => assert.deepEqual(await told(files), expected));

  it("reports that it is missing, and settings that are no TOML", async () => {
    await using dir = await tempDir();
    const found = await validateDirectory(join(dir.path, "none"));
    assert.equal(found[0]?.reason, "Unreadable");
    assert.equal((await told({ "berth.toml": "port = = 1\n" })).length, 1);
  });

  it("reports names, ports and aliases that two slots claim", async () => {
    await using dir = await directoryWith({
      "slots/a.toml": slot('port = 8081\naliases = ["x"]'),
      "slots/b.toml": slot('port = 8081\naliases = ["x", "a"]'),
      "slots/c.yaml": own,
      "slots/d.yaml": `${own.replace("{name: a}", "{name: d}")}---\n${own}`,
      "models/m.toml": 'source = "file:///m.gguf"\n',
      "models/n.yaml": `apiVersion: berth.dev/v1alpha1\nkind: Model\nmetadata:\n  name: m\nspec: {source: "file:///m.gguf"}\n`,
    });
    const found = await validateDirectory(dir.path);
    assert.deepEqual(
      found.map(({ file, line, column, message }) => `${basename(file)}:${line}:${column}: ${message}`),
      [
        "n.yaml:4:3: Model m is already defined at models/m.toml:1:1; change or delete one of the two",
        "b.toml:1:1: port 8081 is already defined at slots/a.toml:1:1; change or delete one of the two",
        "b.toml:2:12: alias x is already defined at slots/a.toml:2:12; change or delete one of the two",
        "b.toml:2:17: a is the name of the slot at slots/a.toml:1:1",
        "c.yaml:3:12: Slot a is already defined at slots/a.toml:1:1; change or delete one of the two",
        "d.yaml:8:12: Slot a is already defined at slots/a.toml:1:1; change or delete one of the two",
      ],
    );
  });
});

describe("berth.toml", () => {
  it("is optional, and names the place of an error", async () => {
    await using dir = await directoryWith({});
    assert.deepEqual(await readBerthToml(dir.path), { values: {}, diagnostics: [] });
    await writeFile(join(dir.path, "berth.toml"), 'hold_seconds = 5\nadmin_password = "hunter2\n');
    const { values, diagnostics } = await readBerthToml(dir.path);
    assert.deepEqual(values, {});
    assert.equal(diagnostics[0]?.line, 2);
    assert.doesNotMatch(JSON.stringify(diagnostics), /hunter2/);
    await writeFile(join(dir.path, "berth.toml"), "hold_seconds = 5\n");
    assert.equal((await readBerthToml(dir.path)).values["hold_seconds"], 5);
  });
});
