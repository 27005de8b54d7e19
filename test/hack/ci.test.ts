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
  it("runs two targets at once and then the next ones, and prints what each has printed at its end", async () => {
    const { code, text, left } = await run({
      test: `${after("test-k8s")}; echo here`,
      "test-k8s": after("test-docker"),
    });
    assert.equal(code, 0, text);
    assert.match(text, /^=== make setup\nran setup\n=== make setup: N s\n=== make verify\n/);
    // A build beside suites would lengthen what they measure.
    assert.match(text, /ran kube\n(?:.*\n)*ran llama-server\n(?:.*\n)*=== make test begins\n/);
    assert.match(text, /\n=== make test begins\n=== make test-k8s begins\n=== make test\nhere\n=== make test: N s\n/);
    assert.match(text, /\n=== make test-docker begins\n(?:.*\n)*=== make test-k8s\n=== make test-k8s: N s\n/);
    assert.match(text, /\n=== all passed after N s\n$/);
    const named = (pattern: RegExp): readonly string[] => [...text.matchAll(pattern)].map(([, target = ""]) => target);
    const ran = named(/^=== make ([\w-]+)$/gm);
    assert.equal(new Set(ran).size, ran.length);
    assert.deepEqual(named(/^=== make ([\w-]+) begins$/gm).toSorted(), ran.slice(4).toSorted());
    assert.deepEqual(left.toSorted(), nothingLeft);
  });

  it("ends the other target where one fails, and prints what failed last", async () => {
    for (const [failing, other] of [
      ["test", "test-k8s"],
      ["test-k8s", "test"],
    ] as const) {
      const fails = `${after(other)}; echo not ok; exit 3`;
      const { code, text, left } = await run({ [failing]: fails, [other]: hang });
      assert.equal(code, 1);
      const last = `=== make ${failing}\nnot ok\n=== make ${failing}: N s\n=== make ${failing} failed\n`;
      assert.ok(text.endsWith(last), text);
      assert.deepEqual(left.toSorted(), nothingLeft);
    }
  });

  it("runs no suite where the sources are not in order", async () => {
    const { code, text } = await run({ verify: "exit 1" });
    assert.equal(code, 1);
    assert.match(text, /=== make verify failed\n$/);
    assert.doesNotMatch(text, /=== make test/);
  });

  it("ends both targets at Ctrl-C", async () => {
    const { code, left } = await run({ test: hang, "test-k8s": hang }, "=== make test-k8s begins");
    assert.equal(code, 130);
    assert.deepEqual(left.toSorted(), nothingLeft);
  });
});
