import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { stateFormat } from "../../src/api/release.ts";
import { loadConfig } from "../../src/api/config.ts";
import { openStore } from "../../src/store/open.ts";
import { StateFormatUnreadable, StateTooNew } from "../../src/store/state/format.ts";
import { berthProcess } from "../support/command.ts";
import { rejectionOf } from "../support/rejection.ts";
import { tempDir } from "../support/temp-dir.ts";

const quiet = { onWarning: () => undefined, onUnknown: () => undefined, onLost: () => undefined };

function storeIn(path: string) {
  const env = { SVC_STATE_DIR: join(path, "state"), SVC_CONFIG_DIR: join(path, "config") };
  const { config } = loadConfig(
    env,
    {},
    { isRoot: false, home: path, xdgConfigHome: undefined, xdgStateHome: undefined },
  );
  assert.ok(config !== undefined);
  return { env, store: openStore(config), stateDir: config.stateDir, file: join(config.stateDir, "format.json") };
}

describe("the format of a state directory", () => {
  it("is written by an operator with its version, and by no other command", async () => {
    await using directory = await tempDir();
    const { store, file, stateDir } = storeIn(directory.path);
    assert.equal(await store.format(), undefined);
    for (const version of [undefined, "0.1.0", "0.2.0"]) {
      await using lease = await store.lead(quiet);
      await using _inputs = await (
        await store.forLeader(lease, { ...quiet, ...(version === undefined ? {} : { version }) })
      ).inputs();
      if (version === undefined) assert.ok(!(await readdir(stateDir)).includes("format.json"));
      else assert.deepEqual(JSON.parse(await readFile(file, "utf8")), { format: stateFormat, version });
    }
    assert.deepEqual(await store.format(), { format: stateFormat, version: "0.2.0" });
  });

  it("keeps an operator and a gateway from a start where it is newer, with one clear line", async () => {
    await using directory = await tempDir();
    const { env, store, file, stateDir } = storeIn(directory.path);
    await (await store.lead(quiet))[Symbol.asyncDispose]();
    await writeFile(file, JSON.stringify({ format: stateFormat + 1, version: "9.0.0", later: true }));
    const line = `the state directory ${stateDir} has format ${stateFormat + 1}, by Berth 9.0.0; this version reads format ${stateFormat}: run \`berth update\`, or start version 9.0.0`;
    assert.equal((await rejectionOf(store.lead(quiet), StateTooNew)).message, line);
    for (const part of ["operator", "serve"]) {
      const { code, stdout, stderr } = await berthProcess([part], { ...env, BERTH_LOG: "text", SVC_PORT: "0" });
      assert.equal(code, 1);
      assert.ok(`${stdout}${stderr}`.includes(line), `${stdout}${stderr}`);
      assert.equal(`${stdout}${stderr}`.trim().split("\n").length, 1);
    }
    const down = await berthProcess(["down"], { ...env });
    assert.equal(down.stderr, `down.failed: ${line}\n`);
  });

  it("keeps an operator from leading that has waited while a newer one wrote it", async () => {
    await using directory = await tempDir();
    const { store, file } = storeIn(directory.path);
    const leader = await store.lead(quiet);
    const waiting = Promise.withResolvers<number>();
    const standby = { onWaiting: waiting.resolve, signal: AbortSignal.timeout(10_000) };
    const refused = rejectionOf(store.lead({ ...quiet, standby }), StateTooNew);
    await waiting.promise;
    await writeFile(file, JSON.stringify({ format: stateFormat + 1, version: "9.0.0" }));
    await leader[Symbol.asyncDispose]();
    await refused;
    assert.equal(await store.leader(), undefined);
  });

  it("that does not read keeps every part from a start, with one clear line", async () => {
    await using directory = await tempDir();
    const { env, store, file } = storeIn(directory.path);
    await (await store.lead(quiet))[Symbol.asyncDispose]();
    for (const text of ["", "{", '{"format":0,"version":"0.1.0"}']) {
      await writeFile(file, text);
      const { message } = await rejectionOf(store.lead(quiet), StateFormatUnreadable);
      assert.match(
        message,
        /format\.json does not read as the format of the state: put it back from a backup, or write/,
      );
      assert.equal((await rejectionOf(store.format(), StateFormatUnreadable)).message, message);
      const { code, stdout, stderr } = await berthProcess(["serve"], { ...env, BERTH_LOG: "text", SVC_PORT: "0" });
      assert.equal(code, 1);
      assert.ok(`${stdout}${stderr}`.includes(message), `${stdout}${stderr}`);
      assert.equal(await readFile(file, "utf8"), text);
    }
    await writeFile(file, `{"format":${stateFormat},"version":"0.1.0"}`);
    await (await store.lead(quiet))[Symbol.asyncDispose]();
  });
});
