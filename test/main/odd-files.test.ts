import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

/** Makes one of these in the place of a file. */
const oddities = {
  "a named pipe": async (path) => void execFileSync("mkfifo", [path]),
  "a directory": async (path) => void (await mkdir(join(path, "x"), { recursive: true })),
  "a link": async (path) => await symlink("nowhere", path),
} satisfies Record<string, (path: string) => Promise<void>>;

const places = [
  "operator.lock",
  "operator.json",
  "registry.json",
  "instance",
  "engines.lock.yaml",
  "slots/a.json",
  "processes/a.main.json",
  "demand/g.json",
  "requests/a.restart.json",
  "requests/removals/slot.a.json",
  "hardware/found.json",
  "auth/mode.json",
  "auth/tokens/abcd1234.json",
];

describe("an unexpected entry in the place of a state file", { concurrency: 2 }, () => {
  for (const [kind, make] of Object.entries(oddities)) {
    it(`is moved aside and reported, and neither stops nor delays a start: ${kind}`, async () => {
      await using directory = await tempDir();
      const stateDir = join(directory.path, "state");
      for (const place of places) {
        await mkdir(join(stateDir, place, ".."), { recursive: true });
        await make(join(stateDir, place));
      }
      await using berth = await startBerth({ env: { SVC_STATE_DIR: stateDir } });
      await until("the operator is ready", async () => (await fetch(`${berth.operatorUrl}/readyz`)).ok);
      for (const place of places)
        await until(`${place} is reported`, () =>
          berth.log().includes(`/state/${place} is ${kind}, and no file: it was moved to`),
        );
      const aside = await readdir(join(stateDir, "aside"));
      assert.deepEqual(
        aside.map((name) => name.replace(/^\d+-/, "")).toSorted(),
        places.map((place) => place.replaceAll("/", ".")).toSorted(),
      );
    });
  }

  it("may also be a file in the place of a directory", async () => {
    await using directory = await tempDir();
    const stateDir = join(directory.path, "state");
    await mkdir(stateDir);
    for (const place of ["slots", "demand", "requests", "processes", "aside", "logs"])
      await writeFile(join(stateDir, place), "");
    await using berth = await startBerth({ env: { SVC_STATE_DIR: stateDir } });
    await until("the operator is ready", async () => (await fetch(`${berth.operatorUrl}/readyz`)).ok);
    await until("it is reported", () => /state\/slots is no directory: it was moved to/.test(berth.log()));
  });

  it("may be invalid pins of images: engines without an image start all the same", async () => {
    await using directory = await tempDir();
    const stateDir = join(directory.path, "state");
    await mkdir(stateDir);
    await writeFile(join(stateDir, "engines.lock.yaml"), "\0}{ nonsense");
    await using berth = await startBerth({ env: { SVC_STATE_DIR: stateDir } });
    await until("the operator is ready", async () => (await fetch(`${berth.operatorUrl}/readyz`)).ok);
    await until("they are reported", () =>
      /engines\.lock\.yaml: .*: it was moved to \S+\/aside; the next pull of each image pins it again/.test(
        berth.log(),
      ),
    );
  });

  it("delays no command that reads the state", async () => {
    await using directory = await tempDir();
    const stateDir = join(directory.path, "state");
    await mkdir(join(stateDir, "auth/tokens"), { recursive: true, mode: 0o700 });
    for (const place of ["operator.lock", "auth/tokens/abcd1234.json", "auth/admin.json"])
      execFileSync("mkfifo", [join(stateDir, place)]);
    const env = {
      HOME: directory.path,
      SVC_STATE_DIR: stateDir,
      SVC_CONFIG_DIR: directory.path,
      SVC_RUNTIME: "process",
    };
    assert.deepEqual(await runBerth(["token", "list"], env), {
      code: 0,
      stdout: "ID  LABEL  SCOPE  CREATED  LAST USED\n",
      stderr: "",
    });
    const doctor = await runBerth(["doctor"], { ...env, SVC_PORT: "0", SVC_OPERATOR_PORT: "0" });
    assert.match(doctor.stdout, /^warn {2}operator: whether one runs cannot be seen \(it is no plain file\)/m);
    const down = await runBerth(["down"], env);
    assert.equal(down.code, 0, down.stderr);
    await rm(stateDir, { recursive: true });
  });
});
