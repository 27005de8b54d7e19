import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { chmod, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Observed, Workload } from "../../../src/api/workload.ts";
import { recordSchema, type ProcessRecord } from "../../../src/api/process-record.ts";
import { tailLogs } from "../../../src/runtimes/logs/logs.ts";
import type { Runtime } from "../../../src/runtimes/runtime.ts";
import { freePort } from "../../support/free-port.ts";
import { noOtherUser } from "../../support/other-user.ts";
import { runScarce } from "../../support/out-of-files.ts";
import { until } from "../../support/until.ts";
import { carriers, ProcessSite } from "./site.ts";
import { later } from "../../support/later.ts";

const recordFile = (site: ProcessSite): string => join(site.stateDir, "processes", "primary.main.json");
const logPath = (site: ProcessSite): string => join(site.stateDir, "logs", "primary.main.log");

describe("process: the engines of this installation", () => {
  test("an adopted engine is not taken for gone while the operator cannot open a file", async () => {
    await using site = new ProcessSite();
    const before = await startedAndLeft(site, site.workload(await freePort()));
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

  test("a record of another installation is set aside, and its engine left alone", async () => {
    await using site = new ProcessSite();
    const before = await startedAndLeft(site, site.workload(await freePort()));
    await using runtime = await site.open({ instance: `other-${site.instance}` });
    assert.deepEqual(await runtime.observe("primary"), []);
    await runtime.remove("primary", undefined, { stopSeconds: 0 });
    assert.deepEqual(carriers(site.instance), [pidOf(before)]);
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
      await startedAndLeft(site, site.workload(await freePort()));
      const record = await readRecord(site);
      process.kill(record.pid, "SIGKILL");
      await until("the engine is gone", async () => (await site.population()) === 0);
      await using stranger = await openStranger({});
      const forged = forge({ ...record, pid: stranger.pid, startTime: startTime(stranger.pid) });
      await writeFile(recordFile(site), JSON.stringify(forged));
      await using runtime = await site.open();
      const seen = await only(runtime);
      assert.equal(seen.phase, "exited");
      assert.equal(seen.exit?.reason, "Unknown");
      await runtime.remove("primary", undefined, { stopSeconds: 0 });
      assert.deepEqual(await runtime.list(), []);
      assert.ok(stranger.isAlive());
    });
  }

  test("an engine of this installation, but of another slot, is not ended with it", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await runtime.ensure(site.workload(await freePort()));
    await runtime.ensure({ ...site.workload(await freePort()), slot: "primary-2" });
    await until("both carry their labels", async () => (await site.population()) === 2);
    await runtime.remove("primary", undefined, { stopSeconds: 10 });
    assert.deepEqual(await runtime.list(), ["primary-2"]);
    assert.equal(await site.population(), 1);
  });

  test("a zombie is gone", async () => {
    await using site = new ProcessSite();
    const workload = site.workload(await freePort());
    const another = await recordOfAnother(site);
    const label = `BERTH_INSTANCE=${site.instance} BERTH_SLOT=primary BERTH_ROLE=main BERTH_START=start-1 PORT=${workload.port}`;
    // A parent that never waits keeps its child a zombie.
    const script = `setsid env ${label} "$@" >/dev/null & echo $!; exec sleep 3600`;
    await using parent = await openStranger({ command: ["/bin/sh", "-c", script, "sh", ...workload.command] });
    const pid = Number(await parent.firstLine());
    await until("the engine carries its label", async () => (await site.population()) === 1);
    const record = { ...another, start: "start-1", pid, startTime: startTime(pid) };
    await writeFile(recordFile(site), JSON.stringify(record));
    await using runtime = await site.open();
    assert.deepEqual([(await only(runtime)).id, (await only(runtime)).phase], [{ pid }, "running"]);
    process.kill(pid, "SIGKILL");
    await until("it is a zombie", () => readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z "));
    assert.equal((await only(runtime)).phase, "exited");
    await runtime.remove("primary", undefined, { stopSeconds: 3600 });
    assert.deepEqual(await runtime.list(), []);
  });

  test("an engine that overwrites its environment is still ended by its operator", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    // Without its label, and its child without one too: only their session identifies them.
    const script = `env -i sleep 3600 & exec env -i sleep 3600`;
    await runtime.ensure(site.command(["/bin/sh", "-c", script], await freePort()));
    const { pid } = await readRecord(site);
    const session = (): number[] => livePids((stat) => stat.split(" ")[3] === String(pid));
    await until("both have lost it", async () => session().length === 2 && (await site.population()) === 0);
    assert.equal((await only(runtime)).phase, "running");
    await runtime.remove("primary", undefined, { stopSeconds: 10 });
    assert.deepEqual(session(), []);
  });

  test("the leftover processes of a crashed engine are ended before the next start", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const port = await freePort();
    await runtime.ensure(site.workload(port, ["--fork-session", "--ignore-term"]));
    await until("both run", async () => (await site.population()) === 2 && (await only(runtime)).isListening);
    await site.kill(await only(runtime), "SIGKILL");
    await exitOf(runtime);
    assert.equal(await site.population(), 1);
    await runtime.ensure(site.workload(port));
    await until("the next listens", async () => (await only(runtime)).isListening);
    assert.equal(await site.population(), 1);
  });

  test("an engine that is being stopped when its operator ends is left to the next operator, with its child processes", async () => {
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
    const before = await startedAndLeft(site, site.workload(await freePort(), ["--fork-session", "--ignore-term"]), 2);
    process.kill(pidOf(before), "SIGKILL");
    await until("its child is left", async () => (await site.population()) === 1);
    await using runtime = await site.open();
    assert.equal((await only(runtime)).phase, "exited");
    await runtime.remove("primary", undefined, { stopSeconds: 0 });
    assert.equal(await site.population(), 0);
  });
});

describe("process: exits", () => {
  test("the last line stands beside the code, without colours", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const script = `echo first; printf '\\033[31merror loading model\\033[0m\\n\\n' >&2; exit 1`;
    await runtime.ensure(site.command(["/bin/sh", "-c", script], await freePort()));
    assert.equal((await exitOf(runtime)).message, "exited with code 1: error loading model");
  });

  test("the exit message of an engine without output has no output of its predecessor", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await runtime.ensure(site.command(["/bin/sh", "-c", "echo secret of the first; exit 1"], await freePort()));
    await exitOf(runtime);
    await runtime.ensure({ ...site.command(["/bin/sh", "-c", "exit 2"], await freePort()), hash: "second" });
    assert.equal((await exitOf(runtime)).message, "exited with code 2");
  });

  test("a long last line is cut to 300 characters", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await runtime.ensure(site.command([process.execPath, "-e", 'console.log("x".repeat(1000))'], await freePort()));
    assert.equal((await exitOf(runtime)).message, `exited with code 0: ${"x".repeat(300)}`);
  });

  test("an immediate exit is reported with its code, at any later observation", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    for (let round = 0; round < 20; round++) {
      await runtime.ensure({ ...site.command(["/bin/sh", "-c", "exit 5"], await freePort()), hash: `round-${round}` });
      const code = await until("it has exited", async () => (await only(runtime)).exit?.code);
      assert.equal(code, 5);
      await until("it is on record", async () => (await readRecord(site)).exit?.code === 5);
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
    const port = await freePort();
    const base = site.command(["true"], port);
    const missing = join(site.stateDir, "missing");
    for (const [workload, message] of [
      [site.command(["no-such-engine"], port), "no-such-engine was not found on PATH"],
      [site.command([notExecutable], port), `${notExecutable} may not be executed`],
      [
        site.command([badInterpreter], port),
        `${badInterpreter} cannot run: the interpreter or loader it names was not found`,
      ],
      [{ ...base, workingDir: missing }, `its working directory ${missing} does not exist`],
      [site.command([], port), "its command names no program"],
      [{ ...base, env: { KEY: { file: missing } } }, "env.KEY: its file cannot be read"],
      [{ ...base, env: { KEY: { file: "/dev/zero" } } }, "env.KEY: its file cannot be read: it is no plain file"],
      [{ ...base, env: { KEY: "a secret\0" } }, "env.KEY: its value holds a null byte"],
    ] satisfies [Workload, string][]) {
      await runtime.ensure(workload);
      const { exit } = await only(runtime);
      assert.deepEqual({ reason: exit?.reason, message: exit?.message }, { reason: "StartFailed", message });
    }
  });

  test("a log that cannot be opened is no decision on the program", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await mkdir(logPath(site));
    await assert.rejects(runtime.ensure(site.workload(await freePort())), /log .* cannot be opened/);
    assert.deepEqual(await runtime.observe("primary"), []);
  });

  test("an engine is not lost when its record cannot be written", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const workload = site.workload(await freePort());
    await mkdir(recordFile(site));
    await assert.rejects(runtime.ensure(workload));
    assert.equal((await only(runtime)).phase, "running");
    await rm(recordFile(site), { recursive: true });
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
    const inherited = {
      PATH: process.env["PATH"],
      HOME: "/home/berth",
      LANG: "C.UTF-8",
      LC_ALL: "C",
      TZ: "UTC",
      CUDA_VISIBLE_DEVICES: "0",
      HIP_VISIBLE_DEVICES: "1",
      ROCR_VISIBLE_DEVICES: "2",
      GGML_VK_VISIBLE_DEVICES: "3",
      VK_ICD_FILENAMES: "/icd.json",
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
    const workload = site.command(["sleep", "3600"], 8081);
    await runtime.ensure({ ...workload, env: { ...workload.env, LANG: "de_DE.UTF-8", API_KEY: { file: secret } } });
    const { pid, start } = await readRecord(site);
    // Its parent may go on before the kernel has set the new program's environment.
    const text = await until("it has its environment", () => readFileSync(`/proc/${pid}/environ`, "utf8"));
    const environment = text.split("\0").filter((pair) => pair !== "");
    const [path] = environment.filter((pair) => pair.startsWith("PATH="));
    assert.equal(path, `PATH=${inherited.PATH}`);
    assert.deepEqual(environment.filter((pair) => pair !== path).toSorted(), [
      "API_KEY=from a file",
      "BERTH_HASH=hash-1",
      `BERTH_INSTANCE=${site.instance}`,
      "BERTH_ORDINAL=0",
      "BERTH_PORT=8081",
      "BERTH_ROLE=main",
      "BERTH_SLOT=primary",
      `BERTH_START=${start}`,
      "CUDA_VISIBLE_DEVICES=0",
      "GGML_VK_VISIBLE_DEVICES=3",
      "HIP_VISIBLE_DEVICES=1",
      "HOME=/home/berth",
      "HOST=127.0.0.1",
      "LANG=de_DE.UTF-8",
      "LC_ALL=C",
      "MODEL=double",
      "PORT=8081",
      "ROCR_VISIBLE_DEVICES=2",
      "SLOT=primary",
      "SPT_NOENV=1",
      "TZ=UTC",
      "VK_ICD_FILENAMES=/icd.json",
    ]);
  });

  test("an engine leads a session of its own, reads nothing and holds no pipe", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    await runtime.ensure(site.command(["sleep", "3600"], await freePort()));
    const { pid } = await readRecord(site);
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ");
    assert.deepEqual(fields?.slice(2, 4), [String(pid), String(pid)]);
    const targets = [0, 1, 2].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    assert.deepEqual(targets, ["/dev/null", logPath(site), logPath(site)]);
    const flags = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/1`, "utf8"))?.[1] ?? "0";
    assert.ok((Number.parseInt(flags, 8) & 0o2000) !== 0, "O_APPEND: cutting the log must not leave a hole");
  });

  if (process.getuid?.() === 0) {
    test("as root, engines run as the engine user, in its home", async () => {
      await using site = new ProcessSite({ engineUser: "nobody" });
      await using runtime = await site.open();
      await runtime.ensure(site.command(["sleep", "3600"], await freePort()));
      const { pid } = await readRecord(site);
      const ids = /^Uid:\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.slice(1);
      assert.deepEqual(ids, ["65534", "65534", "65534", "65534"]);
      await runtime.remove("primary", undefined, { stopSeconds: 10 });
      assert.equal(await site.population(), 0);
    });

    test("as root, engines get the group that is named, and no other", async () => {
      await using site = new ProcessSite({ engineUser: "nobody:daemon" });
      await using runtime = await site.open();
      await runtime.ensure(site.command(["sleep", "3600"], await freePort()));
      const { pid } = await readRecord(site);
      const daemon = /^daemon:[^:]*:(\d+):/m.exec(readFileSync("/etc/group", "utf8"))?.[1] ?? "none";
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      assert.deepEqual(/^Gid:\s+(.*)$/m.exec(status)?.[1]?.split("\t"), [daemon, daemon, daemon, daemon]);
      assert.equal(/^Groups:(.*)$/m.exec(status)?.[1]?.trim(), "");
      assert.match(status, /^Uid:\s+65534\s/m);
      await runtime.remove("primary", undefined, { stopSeconds: 10 });
    });

    test("a group of engines that does not exist is named", async () => {
      await using site = new ProcessSite({ engineUser: "nobody:no-such-group" });
      await using runtime = await site.open();
      await runtime.ensure(site.workload(await freePort()));
      assert.equal(
        (await only(runtime)).exit?.message,
        "SVC_ENGINE_USER: there is no group no-such-group in /etc/group",
      );
    });

    test("an engine user that does not exist is named", async () => {
      await using site = new ProcessSite({ engineUser: "no-such-user" });
      await using runtime = await site.open();
      await runtime.ensure(site.workload(await freePort()));
      assert.equal(
        (await only(runtime)).exit?.message,
        "SVC_ENGINE_USER: there is no user no-such-user in /etc/passwd",
      );
    });
  }
});

describe("process: ports and logs", () => {
  for (const host of ["127.0.0.1", "0.0.0.0", "::"]) {
    test(`a stranger that listens on ${host} does not make an engine ready`, async () => {
      await using site = new ProcessSite();
      await using runtime = await site.open();
      const port = await freePort();
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(port, host, resolve));
      await runtime.ensure(site.workload(port, ["--start-delay-ms", "60000"]));
      const taken = await only(runtime);
      await new Promise((resolve) => server.close(resolve));
      assert.deepEqual([taken.isListening, taken.isPortTaken], [false, true]);
      const free = await only(runtime);
      assert.deepEqual([free.isListening, free.isPortTaken], [false, false]);
    });

    test(`an engine that listens on ${host} is seen, also by a child of its own`, async () => {
      await using site = new ProcessSite();
      await using runtime = await site.open();
      const port = await freePort();
      const workload = site.workload(port, ["--host", host]);
      // A shell that waits: the socket belongs to the leader's child.
      await runtime.ensure({ ...workload, command: ["/bin/sh", "-c", `"$@"; exit`, "sh", ...workload.command] });
      await until("it listens", async () => (await only(runtime)).isListening);
      assert.equal((await only(runtime)).isPortTaken, false);
    });
  }

  test("a log is capped while its engine runs, and nothing it writes later is lost", async () => {
    await using site = new ProcessSite({ logBytes: 100_000 });
    await using runtime = await site.open();
    const port = await freePort();
    await runtime.ensure(site.workload(port));
    await until("it listens", async () => (await only(runtime)).isListening);
    const left = new AbortController();
    const seen: string[] = [];
    const following = later(
      (async () => {
        for await (const { line } of tailLogs(site.stateDir, "primary", {
          tail: 99,
          follow: true,
          signal: left.signal,
        }))
          seen.push(line.trimEnd());
      })(),
    );
    await until("the follower has begun", () => seen.includes("model loaded"));
    const expected: string[] = [];
    for (let batch = 0; batch < 3; batch++) {
      const lines = Array.from({ length: 1500 }, (_, index) => `line ${batch}.${index}`);
      expected.push(...lines);
      const body = lines.map((line) => line.padEnd(99)).join("\n");
      await fetch(`http://127.0.0.1:${port}/double/log`, { method: "POST", body });
      await until("it was cut", async () => (await stat(logPath(site))).size < 100_000);
      // A follower may be one cut behind, not two.
      await until("the follower has it", () => seen.includes(lines.at(-1) ?? ""));
    }
    await fetch(`http://127.0.0.1:${port}/double/log`, { method: "POST", body: "line last" });
    await until("the follower has it", () => seen.includes("line last"));
    left.abort();
    await following;
    assert.deepEqual(
      seen.filter((line) => line.startsWith("line ")),
      [...expected, "line last"],
    );
    assert.ok((await stat(`${logPath(site)}.1`)).size <= 200_000);
    const tail: string[] = [];
    for await (const { line } of tailLogs(site.stateDir, "primary", { tail: 3, follow: false }))
      tail.push(line.trimEnd());
    assert.deepEqual(tail, ["line 2.1498", "line 2.1499", "line last"]);
  });
});

async function only(runtime: Runtime): Promise<Observed> {
  const [observed, ...more] = await runtime.observe("primary");
  assert.ok(observed !== undefined && more.length === 0);
  return observed;
}

async function exitOf(runtime: Runtime): Promise<NonNullable<Observed["exit"]>> {
  return await until("it has exited", async () => (await only(runtime)).exit);
}

function pidOf({ id }: Observed): number {
  assert.ok("pid" in id);
  return id.pid;
}

async function readRecord(site: ProcessSite): Promise<ProcessRecord> {
  return recordSchema.parse(JSON.parse(await readFile(recordFile(site), "utf8")));
}

/** The record of an engine that has been started and ended. */
async function recordOfAnother(site: ProcessSite): Promise<ProcessRecord> {
  await using runtime = await site.open();
  await runtime.ensure(site.command(["sleep", "3600"], await freePort()));
  const record = await readRecord(site);
  await runtime.remove("primary", undefined, { stopSeconds: 10 });
  return record;
}

function startTime(pid: number): string {
  return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ")[19] ?? "";
}

/** Processes of which holds what `stat` says behind their name. One that ends while one looks is none. */
function livePids(holds: (stat: string) => boolean): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1) ?? "";
        return !stat.startsWith("Z") && holds(stat);
      } catch {
        return false;
      }
    });
}

/** An engine that listens, whose operator has gone. */
async function startedAndLeft(site: ProcessSite, workload: Workload, population = 1): Promise<Observed> {
  await using runtime = await site.open();
  await runtime.ensure(workload);
  await until("it listens", async () => (await only(runtime)).isListening && (await site.population()) === population);
  return await only(runtime);
}

interface Stranger extends AsyncDisposable {
  readonly pid: number;
  isAlive(): boolean;
  firstLine(): Promise<string>;
}

/** A process that is none of ours. */
async function openStranger({ command = ["sleep", "3600"] }: { command?: readonly string[] }): Promise<Stranger> {
  const [program = "", ...args] = command;
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
