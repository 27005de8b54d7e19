import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import {
  dataParts,
  modelsPart,
  stateParts,
  uninstall,
  type UninstallOptions,
} from "../../../src/tools/install/uninstall.ts";
import { CommandError } from "../../../src/cli/client.ts";
import { openDemandWriter } from "../../../src/store/state/demand.ts";
import { acquireLock } from "../../../src/store/state/lock.ts";
import { runBerth } from "../../support/command.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";

const used = ["state/instance", "state/operator.json", "state/slots/a.json", "state/auth/tokens/t.json"];

/** A clone, a configuration and a state directory, with these files. */
async function installation(...files: readonly string[]) {
  const directory = await tempDir();
  const { path } = directory;
  const put = async (file: string, text = ""): Promise<void> => {
    await mkdir(dirname(join(path, file)), { recursive: true });
    await writeFile(join(path, file), text);
  };
  for (const file of ["clone/src/main/berth.ts", ...files]) await put(file, file.endsWith("instance") ? "i" : "");
  const keepsAll = { keepsData: false, removesModels: false, removesConfig: false, isDev: false };
  const places = { HOME: path, SVC_STATE_DIR: join(path, "state"), SVC_CONFIG_DIR: join(path, "config") };
  return {
    path,
    put,
    /** What the command prints, with this directory as DIR. */
    async run(options: Partial<UninstallOptions> = {}, env: NodeJS.ProcessEnv = {}): Promise<string> {
      let text = "";
      await uninstall({
        env: { ...places, SVC_RUNTIME: "process", ...env },
        root: join(path, "clone"),
        isConfirmed: true,
        ...keepsAll,
        write: (more) => void (text += more),
        ...options,
      });
      return text.replaceAll(path, "DIR");
    },
    left: async (name: string): Promise<string[]> => (await readdir(join(path, name))).toSorted(),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const stays = `left DIR/config: your manifests; --config removes them
left the program, a clone: rm -r DIR/clone
left images that containers ran from: \`docker image ls\` lists them
`;

describe("berth uninstall", { concurrency: true }, () => {
  it("only lists the removals without --yes", async () => {
    await using at = await installation(...used, "config/slots/a.toml");
    await at.put("state/auth/tokens/t.json", "x".repeat(4096));
    const text = await at.run({ isConfirmed: false });
    assert.equal(
      text,
      `would stop every engine of this instance
would remove DIR/state/auth (4.0 KiB)
would remove DIR/state/instance (1 B)
would remove DIR/state/operator.json (0 B)
would remove DIR/state/slots (0 B)
${stays.replaceAll("left ", "would leave ")}nothing has been done; --yes does it
`,
    );
    assert.deepEqual(await at.left("state"), ["auth", "instance", "operator.json", "slots"]);
  });

  it("removes the state, and neither manifests nor foreign files", async () => {
    await using at = await installation(...used, "config/slots/a.toml", "state/mine.txt", "elsewhere/m.gguf");
    await symlink(join(at.path, "elsewhere"), join(at.path, "state/models"));
    assert.equal(
      await at.run({ removesModels: true }),
      `no engine runs
removed DIR/state/aside
removed DIR/state/auth
removed DIR/state/demand
removed DIR/state/instance
removed DIR/state/logs
removed DIR/state/models
removed DIR/state/operator.json
removed DIR/state/processes
removed DIR/state/requests
removed DIR/state/slots
left DIR/state: mine.txt
${stays}`,
    );
    assert.deepEqual(await at.left("elsewhere"), ["m.gguf"]);
    await rm(join(at.path, "state/mine.txt"));
    assert.equal(await at.run(), `no engine runs\n${stays}`);
  });

  it("leaves tokens and models where it is asked to", async () => {
    await using at = await installation(...used, "state/models/m.gguf", "state/engines.lock.yaml");
    await at.run({ keepsData: true });
    assert.deepEqual(await at.left("state"), ["auth", "engines.lock.yaml", "models"]);
  });

  it("leaves the models, which may be a person's own, until they are named", async () => {
    await using at = await installation(...used);
    await at.put("state/models/m.gguf", "x".repeat(2048));
    await at.put("state/models/notes/mine.txt", "mine");
    const told = await at.run();
    const models = "left DIR/state/models (2.0 KiB): models, and any other files there; --models removes them";
    assert.ok(told.includes("left DIR/state: models\n") && told.includes(`${models}\n`), told);
    assert.deepEqual(await at.left("state/models/notes"), ["mine.txt"]);
    await using all = await installation(...used, "state/models/m.gguf");
    assert.match(await all.run({ removesModels: true }), /^removed DIR\/state\/models\n.*^removed DIR\/state\n/ms);
  });

  it("leaves models that lie elsewhere, with a message", async () => {
    await using at = await installation(...used);
    await at.put("big/m.gguf", "abc");
    const told = await at.run({ removesModels: true }, { SVC_MODELS_DIR: join(at.path, "big") });
    assert.ok(told.includes("left DIR/big (3 B): models, and any other files there\n"), told);
    assert.deepEqual(await at.left("big"), ["m.gguf"]);
  });

  it("removes the configuration and a clone's packages on request, and no more of either", async () => {
    const more = ["config/slots/a.toml", "config/berth.toml", "config/.git/HEAD", "clone/node_modules/x/index.js"];
    await using at = await installation(...used, ...more);
    const text = await at.run({ removesConfig: true, isDev: true });
    assert.match(text, /removed DIR\/config\/berth\.toml\nremoved DIR\/clone\/node_modules\n/);
    assert.match(text, /left DIR\/config: \.git\n/);
    assert.deepEqual([await at.left("config"), await at.left("clone")], [[".git"], ["src"]]);
  });

  it("knows every part of the state directory that docs/operations.md names", async () => {
    const page = await readFile(new URL("../../../docs/operations.md", import.meta.url), "utf8");
    const section = page.split("## State directory")[1]?.split("\n## ")[0] ?? "";
    const cells = [...section.matchAll(/^\| (`.*?) +\|/gm)].map(([, cell = ""]) => cell);
    const named = cells.flatMap((cell) =>
      [...cell.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path.split("/")[0] ?? ""),
    );
    assert.deepEqual([...new Set(named)].toSorted(), [...stateParts, ...dataParts, modelsPart].toSorted());
  });

  it("touches nothing while something runs", async () => {
    await using at = await installation(...used);
    const refusal = async (): Promise<string> => (await rejectionOf(at.run(), CommandError)).message;
    await using _lock = await acquireLock(join(at.path, "state/operator.lock"));
    assert.match(await refusal(), /another operator \(process \d+\) runs with the state directory/);
    await using gateway = await openDemandWriter(join(at.path, "state"), "g");
    await gateway.write({ slots: {} });
    // On a busy machine one heartbeat may be old before it is read.
    const beats = setInterval(() => void gateway.write({ slots: {} }), 500);
    try {
      assert.match(await refusal(), /a gateway runs with/);
    } finally {
      clearInterval(beats);
    }
    assert.ok((await at.left("state")).includes("auth"));
  });

  it("refuses directories that hold more than Berth's files", async () => {
    await using at = await installation(...used, "config/.berth-read-only");
    await rm(join(at.path, "clone/src"), { recursive: true });
    for (const [options, env, why] of [
      [{}, { SVC_STATE_DIR: at.path }, /is not Berth's alone/],
      [{ removesConfig: true }, {}, /belongs to somebody else/],
      [{ isDev: true }, {}, /is no clone/],
    ] as const)
      assert.match((await rejectionOf(at.run(options, env), CommandError)).message, why);
    assert.ok((await at.left("state")).includes("auth"));
  });
});

it("berth update says how a clone is updated", async () => {
  const { code, stdout, stderr } = await runBerth(["update", "--channel", "nightly"]);
  assert.deepEqual([code, stdout], [1, ""]);
  assert.match(
    stderr,
    /^update\.other_way: \S+ cannot update itself: it is a clone\ncd (?:\S+|'.+') && git pull --ff-only && make setup; then start Berth again\n$/,
  );
});
