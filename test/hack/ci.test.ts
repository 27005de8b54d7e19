import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFile, mkdir, readdir, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../support/temp-dir.ts";

const script = fileURLToPath(new URL("../../.ci/run", import.meta.url));

interface Ended {
  readonly code: unknown;
  readonly text: string;
  /** The files in the directory of the run, which is also that of its temporary files, after its end. */
  readonly left: readonly string[];
}

/**
 * Runs `.ci/run` with a `make` that runs the shell line of a target, and prints the name of one that has none. Sends SIGINT
 * once `stopAt` is in the output. Resolves when no process of it is left that could still write.
 */
async function run(lines: Readonly<Record<string, string>>, stopAt?: string): Promise<Ended> {
  await using directory = await tempDir();
  const { path } = directory;
  for (const each of [".ci", "bin", "begun"]) await mkdir(join(path, each));
  await copyFile(script, join(path, ".ci/run"));
  const cases = Object.entries(lines).map(([target, line]) => `${target}) ${line} ;;`);
  const make = `#!/bin/bash\n>begun/$1\ncase $1 in\n${cases.join("\n")}\n*) echo "ran $1" ;;\nesac\n`;
  await writeFile(join(path, "bin/make"), make, { mode: 0o755 });
  const env = { PATH: `${join(path, "bin")}:${process.env["PATH"]}`, TMPDIR: path };
  const child = spawn(join(path, ".ci/run"), [], { env, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let wasStopped = false;
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      if (stopAt === undefined || wasStopped || !text.includes(stopAt)) return;
      wasStopped = true;
      child.kill("SIGINT");
    });
  const [code]: unknown[] = await once(child, "close");
  return {
    code,
    text: text.replaceAll(/: \d+ s, .*$/gm, ": N s").replace(/\d+ s$/m, "N s"),
    left: await readdir(path),
  };
}

const hang = "sleep 1000";
const after = (target: string): string => `until [ -e begun/${target} ]; do sleep 0.01; done`;
const nothingLeft = [".ci", "begun", "bin"];

describe(".ci/run", () => {
  it("runs two lanes at once, and prints the second after the first", async () => {
    const { code, text, left } = await run({ test: `${after("test-k8s")}; echo here`, "test-k8s": after("test") });
    assert.equal(code, 0, text);
    assert.match(text, /^=== make setup\nran setup\n=== make setup: N s\n=== make verify\n/);
    assert.match(text, /=== make test\nhere\n=== make test: N s\n(?:.*\n)*=== make test-k8s\n/);
    // A build beside suites would lengthen what they measure.
    assert.match(text, /ran kube\n(?:.*\n)*ran llama-server\n(?:.*\n)*=== make test\n/);
    assert.match(text, /\n=== all passed after N s\n$/);
    const ran = [...text.matchAll(/^=== make ([\w-]+)$/gm)].map(([, target]) => target);
    assert.equal(new Set(ran).size, ran.length);
    assert.deepEqual(left.toSorted(), nothingLeft);
  });

  it("ends the second lane where a target of the first fails, and says that last", async () => {
    const fails = `${after("test-k8s")}; echo not ok; exit 3`;
    const { code, text, left } = await run({ test: fails, "test-k8s": hang });
    assert.equal(code, 1);
    assert.match(text, /=== make test\nnot ok\n=== make test: N s\n=== make test failed\n$/);
    assert.deepEqual(left.toSorted(), nothingLeft);
  });

  it("ends the first lane where a target of the second fails, and prints what failed last", async () => {
    const fails = `${after("test")}; echo not ok; exit 3`;
    const { code, text } = await run({ test: hang, "test-k8s": fails });
    assert.equal(code, 1);
    assert.match(text, /=== make test-k8s\nnot ok\n=== make test-k8s: N s\n=== make test-k8s failed\n$/);
  });

  it("runs no lane where the sources are not in order", async () => {
    const { code, text } = await run({ verify: "exit 1" });
    assert.equal(code, 1);
    assert.match(text, /=== make verify failed\n$/);
    assert.doesNotMatch(text, /=== make test/);
  });

  it("ends both lanes at Ctrl-C", async () => {
    const { code, left } = await run(
      { test: `${after("test-k8s")}; echo both run; ${hang}`, "test-k8s": hang },
      "both run",
    );
    assert.equal(code, 130);
    assert.deepEqual(left.toSorted(), nothingLeft);
  });
});
