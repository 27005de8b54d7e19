import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const script = fileURLToPath(new URL("../../.ci/run", import.meta.url));

interface Ended {
  readonly code: unknown;
  readonly text: string;
  /** The files in the directory of the run, which is also that of its temporary files, after its end. */
  readonly left: readonly string[];
  /** The targets that hung, and whose process was alive after the end. */
  readonly alive: readonly string[];
}

/**
 * Runs `.ci/run` with a `make` that runs the shell line of a target, and prints the name of one that has none. Sends SIGINT
 * once the targets of `stopAt` hang and are said to have begun. Resolves when no process of it is left that could still
 * write.
 */
async function run(
  lines: Readonly<Record<string, string>>,
  stopAt: readonly string[] = [],
  more: readonly string[] = [],
): Promise<Ended> {
  await using directory = await tempDir();
  const { path } = directory;
  for (const each of [".ci", "bin", "begun"]) await mkdir(join(path, each));
  await copyFile(script, join(path, ".ci/run"));
  const cases = Object.entries(lines).map(([target, line]) => `${target}) ${line} ;;`);
  const make = `#!/bin/bash\n>begun/$1\ncase $1 in\n${cases.join("\n")}\n*) echo "ran $1" ;;\nesac\n`;
  await writeFile(join(path, "bin/make"), make, { mode: 0o755 });
  const env = { PATH: `${join(path, "bin")}:${process.env["PATH"]}`, TMPDIR: path };
  const child = spawn(join(path, ".ci/run"), more, { env, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => void (text += chunk));
  const closed = once(child, "close");
  const pids = async (): Promise<ReadonlyMap<string, number>> => {
    const names = (await readdir(join(path, "begun"))).filter((name) => name.endsWith(".pid"));
    const found = names.map(async (name) => [name, Number(await readFile(join(path, "begun", name), "utf8"))] as const);
    return new Map((await Promise.all(found)).map(([name, pid]) => [name.replace(/\.pid$/, ""), pid]));
  };
  if (stopAt.length > 0) {
    await until("all hang", async () => {
      const hanging = await pids();
      return stopAt.every((each) => (hanging.get(each) ?? 0) > 0 && text.includes(`=== make ${each} begins`));
    });
    child.kill("SIGINT");
  }
  const [code]: unknown[] = await closed;
  const alive = [...(await pids())].filter(([, pid]) => isAlive(pid));
  for (const [, pid] of alive) process.kill(pid, "SIGKILL");
  return {
    alive: alive.map(([target]) => target),
    code,
    text: text.replaceAll(/: \d+ s, .*$/gm, ": N s").replace(/\d+ s$/m, "N s"),
    left: await readdir(path),
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const hang = "echo so far; echo $$ >begun/$1.pid; exec sleep 1000";
const after = (target: string): string => `until [ -e begun/${target} ]; do sleep 0.01; done`;
const hanging = (target: string): string => `until [ -s begun/${target}.pid ]; do sleep 0.01; done`;
const nothingLeft = [".ci", "begun", "bin"];

describe(".ci/run", () => {
  it("runs two targets at once and then the next ones, and prints what each has printed at its end", async () => {
    const lines = { "test-k8s": `${after("test-docker")}; echo here`, "test-docker": after("test-browser") };
    const { code, text, left } = await run(lines, [], ["test-soak"]);
    assert.equal(code, 0, text);
    assert.match(text, /^=== make setup\nran setup\n=== make setup: N s\n=== make verify\n/);
    assert.match(text, /\n=== make test-k8s begins\n=== make test-docker begins\n=== make test-k8s\nhere\n/);
    assert.match(text, /\n=== make test-browser begins\n(?:.*\n)*=== make test-docker\n=== make test-docker: N s\n/);
    assert.match(text, /\n=== all passed after N s\n$/);
    const named = (pattern: RegExp): readonly string[] => [...text.matchAll(pattern)].map(([, target = ""]) => target);
    const ran = named(/^=== make ([\w-]+)$/gm);
    assert.equal(new Set(ran).size, ran.length);
    const begun = named(/^=== make ([\w-]+) begins$/gm);
    assert.deepEqual(begun.toSorted(), ran.slice(4).toSorted());
    for (const each of ["test", "test-system", "test-soak"]) assert.ok(begun.includes(each), each);
    assert.deepEqual(left.toSorted(), nothingLeft);
  });

  it("ends the other target where one fails, and prints what failed last", async () => {
    for (const [failing, other] of [
      ["test-docker", "test-k8s"],
      ["test-k8s", "test-docker"],
    ] as const) {
      const fails = `${hanging(other)}; echo not ok; exit 3`;
      const { code, text, left, alive } = await run({ [failing]: fails, [other]: hang });
      assert.equal(code, 1);
      assert.deepEqual(alive, []);
      const ended = `=== make ${other}\nso far\n=== make ${other} was ended\n`;
      const last = `${ended}=== make ${failing}\nnot ok\n=== make ${failing}: N s\n=== make ${failing} failed\n`;
      assert.ok(text.endsWith(last), text);
      assert.deepEqual(left.toSorted(), nothingLeft);
    }
  });

  it("runs no suite where the sources are not in order", async () => {
    const { code, text } = await run({ verify: "exit 1" });
    assert.equal(code, 1);
    assert.match(text, /=== make verify failed\n$/);
    assert.doesNotMatch(text, /=== make test-/);
  });

  it("ends both targets at Ctrl-C, and prints what they have printed so far", async () => {
    const { code, text, left, alive } = await run({ "test-docker": hang, "test-k8s": hang }, [
      "test-docker",
      "test-k8s",
    ]);
    assert.equal(code, 130);
    assert.deepEqual(alive, []);
    for (const target of ["test-docker", "test-k8s"])
      assert.ok(text.includes(`\n=== make ${target}\nso far\n=== make ${target} was ended\n`), text);
    assert.deepEqual(left.toSorted(), nothingLeft);
  });
});
