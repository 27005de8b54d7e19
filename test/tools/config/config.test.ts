import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runBerth } from "../../support/command.ts";
import { shapes } from "../../support/shapes.ts";
import { writeShape } from "../../support/shaped-model.ts";
import { configSite } from "./site.ts";

const good = { "slots/primary.toml": '[model]\ndefault = "tiny"\n' };
const slot = '{"model": {"default": "tiny"}}';
const valid = { code: 0, stdout: "DIR/config: valid\n", stderr: "" };

describe("berth config validate", () => {
  for (const [what, files, line, ended] of [
    ["says that the directory in use is valid", good, "validate", valid],
    ["says that a named directory is valid", good, "validate CONFIG", valid],
    [
      "prints a line per problem, with its place",
      {
        "berth.toml": "# comment\nprot = 1\n",
        "slots/coder.yaml": "enabled: true\nmodell: {default: tiny}\nidleSeconds: -1\n",
        "slots/primary.toml": "enabled = tru\n",
        "slots/vision.toml": '[model]\ndefault = "a"\ncontxt_size = 5\n',
      },
      "validate",
      {
        code: 1,
        stdout: `DIR/config/berth.toml:2:1: prot: is not a setting; did you mean port?
DIR/config/slots/coder.yaml:2:1: modell: unknown key; did you mean model?
DIR/config/slots/coder.yaml:3:1: idleSeconds: must be at least 0
DIR/config/slots/primary.toml:1:11: this is no value; texts stand in quotes
DIR/config/slots/vision.toml:3:1: model.contxt_size: unknown key; did you mean context_size?
`,
        stderr: "",
      },
    ],
    [
      "warns of a group that slots name and no file declares, and names the group that may be meant",
      {
        "groups/gpu.toml": "[budget]\nslots = 1\n",
        "slots/coder.toml": 'load = "onDemand"\ngroup = "gpo"\n[model]\ndefault = "tiny"\n',
        "slots/writer.toml": 'load = "onDemand"\ngroup = "gpu"\n[model]\ndefault = "tiny"\n',
      },
      "validate",
      {
        ...valid,
        stderr:
          "warning: slot coder names group gpo, which no file declares: it has no budget but the memory of the device; did you mean gpu?; declare it in groups/gpo.toml (docs/groups.md), or correct the name\n",
      },
    ],
    [
      "warns of files that look like manifests and are not read",
      { "slots/coder.json": slot, "models/tiny.TOML": "", "slots/.a.json": slot, "slots/README.md": "" },
      "validate",
      {
        ...valid,
        stderr: ["slots/coder.json", "models/tiny.TOML"]
          .map((file) => `warning: DIR/config/${file} is not read; write its manifest as .toml, .yaml or .yml\n`)
          .join(""),
      },
    ],
    [
      "does not call a missing directory valid",
      {},
      "validate CONFIG/none",
      {
        code: 1,
        stdout:
          "DIR/config/none: there is nothing to check; give a directory with slots, models, upstreams, groups or berth.toml\n",
        stderr: "",
      },
    ],
  ] as const)
    it(what, async () => {
      await using site = await configSite(files);
      assert.deepEqual(await site.config(line), ended);
    });

  it("names a slot whose model cannot fit this machine, of the directory in use", async () => {
    const large = '[model]\ndefault = "dense"\ncontext_size = 16_000_000\nparallel = 64\n';
    await using site = await configSite({ "slots/coder.toml": large });
    const models = join(site.path, "models");
    await mkdir(models);
    await writeShape(join(models, "dense.gguf"), shapes.dense);
    const env = { SVC_MODELS_DIR: models };
    const refused = await site.config("validate", env);
    assert.equal(refused.code, 1, refused.stderr);
    assert.match(refused.stdout, /^DIR\/config\/slots\/coder\.toml:2:1: model: dense needs \S+ \S+ .*\n$/);
    // Another machine may hold it: a directory that is named is checked by itself.
    assert.deepEqual(await site.config("validate CONFIG", env), valid);
    assert.equal((await site.config("validate", { ...env, SVC_RUNTIME: "kubernetes" })).code, 0);
    await site.put("slots/coder.toml", '[model]\ndefault = "dense"\ncontext_size = 512\n');
    assert.equal((await site.config("validate", env)).code, 0);
  });
});

it("the llama-swap configuration of docs/groups.md is one valid file in Berth", async () => {
  const page = await readFile(new URL("../../../docs/groups.md", import.meta.url), "utf8");
  const block = page.split("```").find((part) => part.startsWith("yaml\n# Berth: slots/llama-swap.yaml"));
  assert.ok(block !== undefined);
  await using site = await configSite({ "slots/llama-swap.yaml": block.slice("yaml\n".length) });
  assert.deepEqual(await site.config("validate"), valid);
});

describe("berth config show", () => {
  it("prints every setting with where it comes from, secrets masked", async () => {
    await using site = await configSite({ "berth.toml": 'hold_seconds = 5\nadmin_password = "hunter2"\n' });
    const { code, stdout } = await site.config("show", { SVC_PORT: "9000" });
    assert.equal(code, 0);
    const rows = stdout.split("\n").map((line) => line.split(/ {2,}/));
    assert.deepEqual(rows[0], ["SETTING", "VALUE", "FROM"]);
    const told = new Map(rows.map(([name, ...rest]) => [name, rest.join(" ")]));
    for (const [name, said] of [
      ["SVC_CONFIG_DIR", "DIR/config environment"],
      ["SVC_PORT", "9000 environment"],
      ["SVC_HOLD_SECONDS", "5 file"],
      ["SVC_ADMIN_PASSWORD", "******** file"],
      ["SVC_DRAIN_SECONDS", "30 default"],
    ] as const)
      assert.equal(told.get(name), said);
    assert.doesNotMatch(stdout, /hunter2/);
  });

  it("prints them as JSON", async () => {
    await using site = await configSite();
    const shown: Record<string, unknown> = JSON.parse((await site.config("show -o json", { SVC_PORT: "9000" })).stdout);
    const ports = { value: "8081-8099", origin: "default", environment: "SVC_SLOT_PORTS", toml: "slot_ports" };
    assert.deepEqual(shown["slot_ports"], ports);
    assert.deepEqual(shown["port"], { value: 9000, origin: "environment", environment: "SVC_PORT", toml: "port" });
  });
});

describe("invalid settings", () => {
  for (const line of ["up", "serve", "operator", "down", "config show"])
    it(`are reported in a line each, and nothing starts: ${line}`, async () => {
      await using site = await configSite({ "berth.toml": 'log_level = "loud"\n' });
      const env = { SVC_CONFIG_DIR: site.configDir, SVC_STATE_DIR: site.path, SVC_PORT: "x", SVC_PROT: "1" };
      assert.deepEqual(await runBerth(line.split(" "), env), {
        code: 1,
        stdout: "",
        stderr: `config.invalid: berth.toml log_level must be one of fatal, error, warn, info, debug, trace, silent
config.invalid: SVC_PORT must be a whole number
config.invalid: SVC_PROT is not a setting; did you mean SVC_PORT?
`,
      });
    });

  it("name the place of broken TOML", async () => {
    await using site = await configSite({ "berth.toml": "port = = 1\n" });
    const { code, stderr } = await site.config("show");
    assert.equal(code, 1);
    assert.match(stderr, /^config\.invalid: DIR\/config\/berth\.toml:1:8: [^\n]+\n$/);
  });
});
