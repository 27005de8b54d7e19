import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runBerth, type Ended } from "../../support/command.ts";
import { shapes } from "../../support/shapes.ts";
import { writeShape } from "../../support/shaped-model.ts";
import { tempDir } from "../../support/temp-dir.ts";

async function inDirectory(
  files: Readonly<Record<string, string>>,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  await using directory = await tempDir();
  const config = join(directory.path, "config");
  for (const [file, text] of Object.entries(files)) {
    await mkdir(join(config, file, ".."), { recursive: true });
    await writeFile(join(config, file), text);
  }
  const ended = await runBerth(
    args.map((arg) => arg.replace("CONFIG", config)),
    { HOME: directory.path, SVC_CONFIG_DIR: config, SVC_STATE_DIR: join(directory.path, "state"), ...env },
  );
  const anonymous = (text: string): string => text.replaceAll(directory.path, "DIR");
  return { ...ended, stdout: anonymous(ended.stdout), stderr: anonymous(ended.stderr) };
}

describe("berth config validate", () => {
  const good = { "slots/primary.toml": '[model]\ndefault = "tiny"\n' };
  for (const args of [[], ["CONFIG"]]) {
    it(`says that a directory is valid: ${args.join(" ") || "the one in use"}`, async () => {
      assert.deepEqual(await inDirectory(good, ["config", "validate", ...args]), {
        code: 0,
        stdout: "DIR/config: valid\n",
        stderr: "",
      });
    });
  }

  it("prints a line per problem, with its place, and exits with 1", async () => {
    const bad = {
      "berth.toml": "# comment\nprot = 1\n",
      "slots/coder.yaml": "enabled: true\nmodell: {default: tiny}\nidleSeconds: -1\n",
      "slots/primary.toml": "enabled = tru\n",
      "slots/vision.toml": '[model]\ndefault = "a"\ncontxt_size = 5\n',
    };
    assert.deepEqual(await inDirectory(bad, ["config", "validate"]), {
      code: 1,
      stdout: `DIR/config/berth.toml:2:1: prot: is not a setting; did you mean port?
DIR/config/slots/coder.yaml:2:1: modell: unknown key; did you mean model?
DIR/config/slots/coder.yaml:3:1: idleSeconds: must be at least 0
DIR/config/slots/primary.toml:1:11: this is no value; texts stand in quotes
DIR/config/slots/vision.toml:3:1: model.contxt_size: unknown key; did you mean context_size?
`,
      stderr: "",
    });
  });

  it("names a slot whose model cannot fit this machine, of the directory in use", async () => {
    await using directory = await tempDir();
    await writeShape(join(directory.path, "dense.gguf"), shapes.dense);
    const env = { SVC_MODELS_DIR: directory.path };
    const large = '[model]\ndefault = "dense"\ncontext_size = 16_000_000\nparallel = 64\n';
    const files = { "slots/coder.toml": large };
    const refused = await inDirectory(files, ["config", "validate"], env);
    assert.equal(refused.code, 1, refused.stderr);
    assert.match(refused.stdout, /^DIR\/config\/slots\/coder\.toml:2:1: model: dense needs \S+ \S+ .*\n$/);
    // Another machine may hold it: a directory that is named is checked by itself.
    assert.equal((await inDirectory(files, ["config", "validate", "CONFIG"], env)).code, 0);
    const inCluster = await inDirectory(files, ["config", "validate"], { ...env, SVC_RUNTIME: "kubernetes" });
    assert.equal(inCluster.code, 0, inCluster.stdout);
    const small = { "slots/coder.toml": '[model]\ndefault = "dense"\ncontext_size = 512\n' };
    assert.equal((await inDirectory(small, ["config", "validate"], env)).code, 0);
  });

  it("warns of a group that slots name and no file declares, and names the group that may be meant", async () => {
    const files = {
      "groups/gpu.toml": "[budget]\nslots = 1\n",
      "slots/coder.toml": 'load = "onDemand"\ngroup = "gpo"\n[model]\ndefault = "tiny"\n',
      "slots/writer.toml": 'load = "onDemand"\ngroup = "gpu"\n[model]\ndefault = "tiny"\n',
    };
    assert.deepEqual(await inDirectory(files, ["config", "validate"]), {
      code: 0,
      stdout: "DIR/config: valid\n",
      stderr:
        "warning: slot coder names group gpo, which no file declares: it has no budget but the memory of the device; did you mean gpu?; declare it in groups/gpo.toml (docs/groups.md), or correct the name\n",
    });
  });

  it("warns of files that look like manifests and are not read", async () => {
    const slot = '{"model": {"default": "tiny"}}';
    const files = { "slots/coder.json": slot, "models/tiny.TOML": "", "slots/.a.json": slot, "slots/README.md": "" };
    assert.deepEqual(await inDirectory(files, ["config", "validate"]), {
      code: 0,
      stdout: "DIR/config: valid\n",
      stderr: ["slots/coder.json", "models/tiny.TOML"]
        .map((file) => `warning: DIR/config/${file} is not read; write its manifest as .toml, .yaml or .yml\n`)
        .join(""),
    });
  });

  it("does not call a missing directory valid", async () => {
    assert.deepEqual(await inDirectory({}, ["config", "validate", "CONFIG/none"]), {
      code: 1,
      stdout:
        "DIR/config/none: there is nothing to check; give a directory with slots, models, upstreams, groups or berth.toml\n",
      stderr: "",
    });
  });
});

describe("berth config show", () => {
  it("prints every setting with where it comes from, secrets masked", async () => {
    const files = { "berth.toml": 'hold_seconds = 5\nadmin_password = "hunter2"\n' };
    const { code, stdout } = await inDirectory(files, ["config", "show"], { SVC_PORT: "9000" });
    assert.equal(code, 0);
    const rows = stdout.split("\n").map((line) => line.split(/ {2,}/));
    assert.deepEqual(rows[0], ["SETTING", "VALUE", "FROM"]);
    const told = new Map(rows.map(([name, ...rest]) => [name, rest.join(" ")]));
    assert.equal(told.get("SVC_CONFIG_DIR"), "DIR/config environment");
    assert.equal(told.get("SVC_PORT"), "9000 environment");
    assert.equal(told.get("SVC_HOLD_SECONDS"), "5 file");
    assert.equal(told.get("SVC_ADMIN_PASSWORD"), "******** file");
    assert.equal(told.get("SVC_DRAIN_SECONDS"), "30 default");
    assert.doesNotMatch(stdout, /hunter2/);
  });

  it("prints them as JSON", async () => {
    const { stdout } = await inDirectory({}, ["config", "show", "-o", "json"], { SVC_PORT: "9000" });
    const shown: unknown = JSON.parse(stdout);
    assert.ok(typeof shown === "object" && shown !== null && "port" in shown);
    assert.ok("slot_ports" in shown);
    assert.deepEqual(shown.slot_ports, {
      value: "8081-8099",
      origin: "default",
      environment: "SVC_SLOT_PORTS",
      toml: "slot_ports",
    });
    assert.deepEqual(shown.port, { value: 9000, origin: "environment", environment: "SVC_PORT", toml: "port" });
  });
});

describe("invalid settings", () => {
  it("are reported in a line each, and nothing starts", async () => {
    for (const args of [["up"], ["serve"], ["operator"], ["down"], ["config", "show"]]) {
      assert.deepEqual(
        await inDirectory({ "berth.toml": 'log_level = "loud"\n' }, args, { SVC_PORT: "x", SVC_PROT: "1" }),
        {
          code: 1,
          stdout: "",
          stderr: `config.invalid: berth.toml log_level must be one of fatal, error, warn, info, debug, trace, silent
config.invalid: SVC_PORT must be a whole number
config.invalid: SVC_PROT is not a setting; did you mean SVC_PORT?
`,
        },
        args.join(" "),
      );
    }
  });

  it("name the place of broken TOML", async () => {
    const { code, stderr } = await inDirectory({ "berth.toml": "port = = 1\n" }, ["serve"]);
    assert.equal(code, 1);
    assert.match(stderr, /^config\.invalid: DIR\/config\/berth\.toml:1:8: [^\n]+\n$/);
  });
});
