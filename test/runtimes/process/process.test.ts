import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { chmod, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { ProcessRecord } from "../../../src/api/process-record.ts";
import type { Workload } from "../../../src/api/workload.ts";
import { freePort } from "../../support/free-port.ts";
import { later } from "../../support/later.ts";
import { listen } from "../../support/listen.ts";
import { noOtherUser } from "../../support/other-user.ts";
import { runScarce } from "../../support/out-of-files.ts";
import { until } from "../../support/until.ts";
import { exitOf, only, pidOf, ProcessSite, startTimeIn, statOf } from "./site.ts";

describe("process: the engines of this installation", () => {
  test("an adopted engine is not taken for gone while the operator cannot open a file", async () => {
    await using site = new ProcessSite();
    const before = await site.startedAndLeft(site.sleep(), { listens: false });
    const module = new URL("../../../src/runtimes/process/process.ts", import.meta.url);
    const options = { stateDir: site.stateDir, instance: site.instance };
    // Six of the looks that it takes at adopted engines.
    const seen = await runScarce(`
      const { openProcessRuntime } = await import(${JSON.stringify(module.href)});
      const runtime = await openProcessRuntime(${JSON.stringify(options)});
      const open = exhaust();
      await new Promise((resolve) => setTimeout(resolve, 1500));
      giveBack(open);
      const [observed] = await runtime.observe("primary");
      console.log(JSON.stringify([observed.phase, observed.id]));
      await runtime[Symbol.asyncDispose]();`);
    assert.deepEqual(JSON.parse(seen), ["running", before.id]);
  });

  // Each row is one way in which a recorded pid can come to mean a stranger.
  for (const [what, forge] of [
    ["another start time", (record) => ({ ...record, startTime: String(Number(record.startTime) + 1) })],
    ["no label", (record) => record],
    ["another user noted", (record) => ({ ...record, uid: 4711 })],
    ["another boot", (record) => ({ ...record, bootId: "another" })],
    ["another pid namespace", (record) => ({ ...record, pidNamespace: "pid:[1]" })],
  ] satisfies [string, (record: ProcessRecord) => ProcessRecord][]) {
    test(`a stranger with a recorded pid but ${what} is never touched`, async () => {
      await using site = new ProcessSite();
      const record = await recordOfAnother(site);
      await using stranger = await openStranger(["sleep", "3600"]);
      const forged = forge({ ...record, pid: stranger.pid, startTime: startTimeIn(stranger.pid) });
      await writeFile(site.recordFile, JSON.stringify(forged));
      await using runtime = await site.open();
      const { phase, exit } = await only(runtime);
      assert.deepEqual([phase, exit?.reason], ["exited", "Unknown"]);
      await runtime.remove("primary", undefined, { stopSeconds: 0 });
      assert.deepEqual(await runtime.list(), []);
      assert.ok(stranger.isAlive());
    });
  }

  test("an engine of this installation, but of another slot, is not ended with it", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    for (const slot of ["primary", "primary-2"]) await runtime.ensure({ ...site.sleep(), slot });
    await until("both carry their labels", async () => (await site.population()) === 2);
    await runtime.remove("primary", undefined, { stopSeconds: 10 });
    assert.deepEqual([await runtime.list(), await site.population()], [["primary-2"], 1]);
  });

  test("a zombie is gone", async () => {
    await using site = new ProcessSite();
    const another = await recordOfAnother(site);
    const label = `BERTH_INSTANCE=${site.instance} BERTH_SLOT=primary BERTH_ROLE=main BERTH_ORDINAL=0 BERTH_START=start-1`;
    // A parent that never waits keeps its child a zombie.
    const script = `setsid env ${label} sleep 3600 >/dev/null & echo $!; exec sleep 3600`;
    await using parent = await openStranger(["/bin/sh", "-c", script]);
    const pid = Number(await parent.firstLine());
    await until("the engine carries its label", async () => (await site.population()) === 1);
    const record = { ...another, start: "start-1", pid, startTime: startTimeIn(pid) };
    await writeFile(site.recordFile, JSON.stringify(record));
    await using runtime = await site.open();
    assert.deepEqual([(await only(runtime)).id, (await only(runtime)).phase], [{ pid }, "running"]);
    process.kill(pid, "SIGKILL");
    await until("it is a zombie", () => statOf(pid).startsWith("Z "));
    assert.equal((await only(runtime)).phase, "exited");
    await runtime.remove("primary", undefined, { stopSeconds: 3600 });
    assert.deepEqual(await runtime.list(), []);
  });

  test("an engine that overwrites its environment is still ended by its operator", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    // Without its label, and its child without one too: only their session identifies them.
    await runtime.ensure(site.command(["/bin/sh", "-c", `env -i sleep 3600 & exec env -i sleep 3600`], 8081));
    const { pid } = await site.readRecord();
    await until("both have lost it", async () => liveOf(pid).length === 2 && (await site.population()) === 0);
    assert.equal((await only(runtime)).phase, "running");
    await runtime.remove("primary", undefined, { stopSeconds: 10 });
    assert.deepEqual(liveOf(pid), []);
  });

  test("the leftover processes of a crashed engine are ended before the next start", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const port = await freePort();
    await runtime.ensure(site.workload(port, ["--fork-session", "--ignore-term"]));
    await until("both run", async () => (await site.population()) === 2 && (await only(runtime)).isListening);
    await site.kill(await only(runtime), "SIGKILL");
    // Its last output, "model loaded", is not the cause.
    assert.equal((await exitOf(runtime)).message, "ended by SIGKILL");
    assert.equal(await site.population(), 1);
    await runtime.ensure(site.sleep());
    await until("the next carries its label", async () => (await site.population()) > 0);
    assert.equal(await site.population(), 1);
  });

  test("an engine that is being stopped when its operator ends is left to the next operator", async () => {
    await using site = new ProcessSite();
    const runtime = await site.open();
    await runtime.ensure(site.workload(await freePort(), ["--ignore-term"]));
    await until("it hears TERM", async () => (await only(runtime)).isListening);
    // Else it would go on to end whatever carries the slot's label.
    const given = later(
      assert.rejects(runtime.remove("primary", undefined, { stopSeconds: 600 }), /the operator is being stopped/),
    );
    await runtime[Symbol.asyncDispose]();
    await given;
    await using successor = await site.open();
    assert.equal((await only(successor)).phase, "running");
  });

  test("leftover processes of an engine are not taken for the engine after a restart", async () => {
    await using site = new ProcessSite();
    const workload = site.workload(await freePort(), ["--fork-session", "--ignore-term"]);
    const before = await site.startedAndLeft(workload, { population: 2 });
    process.kill(pidOf(before), "SIGKILL");
    await until("its child is left", async () => (await site.population()) === 1);
    await using runtime = await site.open();
    const { phase, exit } = await only(runtime);
    const message = "how it ended is not known, since an earlier operator had started it";
    assert.deepEqual([phase, exit?.message], ["exited", message]);
    await runtime.remove("primary", undefined, { stopSeconds: 0 });
    assert.equal(await site.population(), 0);
  });
});

describe("process: exits", () => {
  test("the last line of this engine stands beside the code: without colours, cut, and none of its predecessor", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    for (const [script, message] of [
      [`echo first; printf '\\033[31merror loading model\\033[0m\\n\\n' >&2; exit 1`, "code 1: error loading model"],
      ["exit 2", "code 2"],
      [`printf 'x%.0s' $(seq 1000)`, `code 0: ${"x".repeat(300)}`],
    ] as const) {
      await runtime.ensure({ ...site.command(["/bin/sh", "-c", script], 8081), hash: script });
      assert.equal((await exitOf(runtime)).message, `exited with ${message}`);
    }
  });

  test("each reason why a program cannot start is named", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const notExecutable = join(site.stateDir, "plain.txt");
    await writeFile(notExecutable, "text");
    const badInterpreter = join(site.stateDir, "script");
    await writeFile(badInterpreter, `#!${join(site.stateDir, "no-interpreter")}\n`);
    await chmod(badInterpreter, 0o755);
    const base = site.command(["true"], 8081);
    const missing = join(site.stateDir, "missing");
    for (const [change, message] of [
      [{ command: ["no-such-engine"] }, "no-such-engine was not found on PATH"],
      [{ command: [notExecutable] }, `${notExecutable} may not be executed`],
      [{ command: [badInterpreter] }, `${badInterpreter} cannot run: the interpreter or loader it names was not found`],
      [{ workingDir: missing }, `its working directory ${missing} does not exist`],
      [{ command: [] }, "its command names no program"],
      [{ env: { KEY: { file: missing } } }, "env.KEY: its file cannot be read"],
      [{ env: { KEY: { file: "/dev/zero" } } }, "env.KEY: its file cannot be read: it is no plain file"],
      [{ env: { KEY: "a secret\0" } }, "env.KEY: its value holds a null byte"],
    ] satisfies [Partial<Workload>, string][]) {
      await runtime.ensure({ ...base, ...change });
      const { exit } = await only(runtime);
      assert.deepEqual({ reason: exit?.reason, message: exit?.message }, { reason: "StartFailed", message });
    }
  });

  test("a log that cannot be opened is no decision on the program", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await mkdir(site.logFile);
    await assert.rejects(runtime.ensure(site.sleep()), /log .* cannot be opened/);
    assert.deepEqual(await runtime.observe("primary"), []);
  });

  test("an engine is not lost when its record cannot be written", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await mkdir(site.recordFile);
    await assert.rejects(runtime.ensure(site.sleep()));
    assert.equal((await only(runtime)).phase, "running");
    await rm(site.recordFile, { recursive: true });
    await runtime.remove("primary", undefined, { stopSeconds: 10 });
    assert.equal(await site.population(), 0);
  });
});

describe("process: environment and user", () => {
  test("an engine has a home although its user has no account", { skip: noOtherUser() }, () => {
    const module = new URL("../../../src/runtimes/process/child.ts", import.meta.url).href;
    const script = `const { environmentFor } = await import(${JSON.stringify(module)});
      const label = { instance: "i", slot: "s", role: "main", ordinal: 0, port: 1, hash: "h", start: "x" };
      const { env } = await environmentFor({ env: {} }, undefined, {}, label, { user: undefined, stateDir: "/state" });
      process.stdout.write(env.HOME);`;
    const stranger = { uid: 54_321, gid: 54_321, env: { PATH: process.env["PATH"] }, encoding: "utf8" } as const;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], stranger);
    assert.equal(stdout, "/state", stderr);
  });

  test("an engine gets the allow-list, its own and our label, and nothing of the operator's", async () => {
    const allowed = {
      PATH: process.env["PATH"],
      HOME: "/home/berth",
      LC_ALL: "C",
      TZ: "UTC",
      CUDA_VISIBLE_DEVICES: "0",
      HIP_VISIBLE_DEVICES: "1",
      ROCR_VISIBLE_DEVICES: "2",
      GGML_VK_VISIBLE_DEVICES: "3",
      VK_ICD_FILENAMES: "/icd.json",
    };
    const inherited = {
      ...allowed,
      LANG: "C.UTF-8",
      SVC_ADMIN_PASSWORD: "canary-password",
      SVC_TOKEN: "canary-token",
      HF_TOKEN: "canary-hub",
      AWS_SECRET_ACCESS_KEY: "canary-cloud",
      NODE_OPTIONS: "--no-warnings",
      BERTH_INSTANCE: "somebody else",
    };
    await using site = new ProcessSite({ inherited });
    const secret = join(site.stateDir, "key");
    await writeFile(secret, "from a file\n");
    await using runtime = await site.open();
    const workload = site.sleep();
    await runtime.ensure({ ...workload, env: { ...workload.env, LANG: "de_DE.UTF-8", API_KEY: { file: secret } } });
    const { pid, start } = await site.readRecord();
    // Its parent may go on before the kernel has set the new program's environment.
    const text = await until("it has its environment", () => readFileSync(`/proc/${pid}/environ`, "utf8"));
    const environment = text.split("\0").filter((pair) => pair !== "");
    const given = {
      ...allowed,
      API_KEY: "from a file",
      BERTH_HASH: "hash-1",
      BERTH_INSTANCE: site.instance,
      BERTH_ORDINAL: "0",
      BERTH_PORT: "8081",
      BERTH_ROLE: "main",
      BERTH_SLOT: "primary",
      BERTH_START: start,
      HOST: "127.0.0.1",
      LANG: "de_DE.UTF-8",
      MODEL: "double",
      PORT: "8081",
      SLOT: "primary",
      SPT_NOENV: "1",
    };
    const pairs = Object.entries(given).map(([name, value]) => `${name}=${value}`);
    assert.deepEqual(environment.toSorted(), pairs.toSorted());
  });

  test("an engine leads a session of its own, reads nothing and holds no pipe", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await runtime.ensure(site.sleep());
    const { pid } = await site.readRecord();
    assert.deepEqual(statOf(pid).split(" ").slice(2, 4), [String(pid), String(pid)]);
    const targets = [0, 1, 2].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    assert.deepEqual(targets, ["/dev/null", site.logFile, site.logFile]);
    const flags = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/1`, "utf8"))?.[1] ?? "0";
    assert.ok((Number.parseInt(flags, 8) & 0o2000) !== 0, "O_APPEND: cutting the log must not leave a hole");
  });

  if (process.getuid?.() === 0) {
    test("as root, engines run as the engine user, with the group that is named, and no other", async () => {
      const nobody = ["65534", "65534", "65534", "65534"];
      const daemon = /^daemon:[^:]*:(\d+):/m.exec(readFileSync("/etc/group", "utf8"))?.[1] ?? "none";
      for (const [engineUser, gids] of [
        ["nobody", undefined],
        ["nobody:daemon", [daemon, daemon, daemon, daemon]],
      ] as const) {
        await using site = new ProcessSite({ engineUser });
        await using runtime = await site.open();
        await runtime.ensure(site.sleep());
        const status = readFileSync(`/proc/${(await site.readRecord()).pid}/status`, "utf8");
        const ids = (name: string): unknown => new RegExp(`^${name}:\\s+(.*)$`, "m").exec(status)?.[1]?.split("\t");
        assert.deepEqual(ids("Uid"), nobody);
        if (gids !== undefined) assert.deepEqual(ids("Gid"), gids);
        if (gids !== undefined) assert.equal(/^Groups:(.*)$/m.exec(status)?.[1]?.trim(), "");
        await runtime.remove("primary", undefined, { stopSeconds: 10 });
        assert.equal(await site.population(), 0);
      }
    });

    test("an engine user or a group that does not exist is named", async () => {
      for (const [engineUser, message] of [
        ["no-such-user", "SVC_ENGINE_USER: there is no user no-such-user in /etc/passwd"],
        ["nobody:no-such-group", "SVC_ENGINE_USER: there is no group no-such-group in /etc/group"],
      ] as const) {
        await using site = new ProcessSite({ engineUser });
        await using runtime = await site.open();
        await runtime.ensure(site.sleep());
        assert.equal((await only(runtime)).exit?.message, message);
      }
    });
  }
});

describe("process: ports and logs", () => {
  test("a stranger that listens does not make an engine ready", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const server = createServer();
    await runtime.ensure(site.sleep(await listen(server, 0, "::")));
    const taken = await only(runtime);
    await new Promise((resolve) => server.close(resolve));
    assert.deepEqual([taken.isListening, taken.isPortTaken], [false, true]);
    const free = await only(runtime);
    assert.deepEqual([free.isListening, free.isPortTaken], [false, false]);
  });

  test("an engine that listens by a child of its own is seen", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const workload = site.workload(await freePort(), ["--host", "::"]);
    // A shell that waits: the socket belongs to the leader's child.
    await runtime.ensure({ ...workload, command: ["/bin/sh", "-c", `"$@"; exit`, "sh", ...workload.command] });
    await until("it listens", async () => (await only(runtime)).isListening);
    assert.equal((await only(runtime)).isPortTaken, false);
  });

  test("a log is capped while its engine runs, and has what it writes later", async () => {
    await using site = new ProcessSite({ logBytes: 100_000 });
    await using runtime = await site.open();
    const port = await freePort();
    await runtime.ensure(site.workload(port));
    await until("it listens", async () => (await only(runtime)).isListening);
    const write = (body: string): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/double/log`, { method: "POST", body });
    await write("line\n".repeat(40_000));
    await until("it was cut", async () => (await stat(site.logFile)).size < 100_000);
    await write("line last");
    await until("the line is there", async () => (await readFile(site.logFile, "utf8")).endsWith("line last\n"));
    assert.ok((await stat(`${site.logFile}.1`)).size <= 200_000);
  });
});

/** The record of an engine that has been started and ended. */
async function recordOfAnother(site: ProcessSite): Promise<ProcessRecord> {
  await using runtime = await site.open();
  await runtime.ensure(site.sleep());
  const record = await site.readRecord();
  await runtime.remove("primary", undefined, { stopSeconds: 10 });
  return record;
}

/** Live processes of a session. A process that ends meanwhile is none. */
function liveOf(session: number): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        const [state, , , its] = statOf(pid).split(" ");
        return state !== "Z" && its === String(session);
      } catch {
        return false;
      }
    });
}

interface Stranger extends AsyncDisposable {
  readonly pid: number;
  isAlive(): boolean;
  firstLine(): Promise<string>;
}

/** A process that is none of ours. */
async function openStranger([program = "", ...args]: readonly string[]): Promise<Stranger> {
  const child: ChildProcess = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const line = new Promise<string>((resolve) => child.stdout?.once("data", (data: Buffer) => resolve(data.toString())));
  await new Promise<void>((resolve) => child.once("spawn", resolve));
  assert.ok(child.pid !== undefined);
  return {
    pid: child.pid,
    isAlive: () => child.exitCode === null && child.signalCode === null,
    firstLine: () => line,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}
