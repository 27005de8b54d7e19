import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const script = fileURLToPath(new URL("../../hack/llama-server.sh", import.meta.url));

it("other flags of the compiler are another build", async () => {
  await using directory = await tempDir();
  const text = await readFile(script, "utf8");
  const cacheOf = async (changed: string): Promise<string> => {
    const path = join(directory.path, "llama-server.sh");
    // The beginning, up to the place of the cache.
    const [beginning = ""] = changed.split(/^binary=/m);
    await writeFile(path, `${beginning}echo "$cache"\n`, { mode: 0o755 });
    const child = spawn(path, {
      env: { PATH: process.env["PATH"], XDG_CACHE_HOME: "/c" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [printed]: unknown[] = await once(child.stdout.setEncoding("utf8"), "data");
    return String(printed).trim();
  };
  const machine = process.arch === "arm64" ? "aarch64" : "x86_64";
  const version = /^version=(.*)$/m.exec(text)?.[1] ?? assert.fail();
  const now = `/c/berth/llama-server/${version}-${machine}`;
  assert.equal(await cacheOf(text), now);
  for (const [flag, other] of [
    ["-O1 -DNDEBUG", "-O2 -DNDEBUG"],
    ["-DGGML_NATIVE=OFF", "-DGGML_NATIVE=ON"],
  ] as const) {
    assert.ok(text.includes(flag));
    assert.match(await cacheOf(text.replace(flag, other)), new RegExp(`^${now}-[0-9a-f]{12}$`));
  }
});

it("a second build of llama-server waits for the first, and takes what that has built", async () => {
  await using directory = await tempDir();
  const version = /^version=(.*)$/m.exec(await readFile(script, "utf8"))?.[1] ?? assert.fail();
  const machine = process.arch === "arm64" ? "aarch64" : "x86_64";
  const cache = join(directory.path, `berth/llama-server/${version}-${machine}`);
  await mkdir(cache, { recursive: true });
  const first = spawn("flock", [cache, "sh", "-c", "echo builds; read -r _"], { stdio: ["pipe", "pipe", "inherit"] });
  await once(first.stdout, "data");
  const second = spawn(script, {
    env: { PATH: process.env["PATH"], XDG_CACHE_HOME: directory.path },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [said, printed] = ["", ""];
  second.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  second.stdout.setEncoding("utf8").on("data", (text: string) => (printed += text));
  const ended = once(second, "close");
  await until("it waits", () => said === `llama-server ${version}: another run builds it; waiting\n`);
  for (const name of ["llama-server", "llama-fit-params"])
    await writeFile(join(cache, name), "#!/bin/sh\n", { mode: 0o755 });
  first.stdin.end();
  assert.deepEqual([...(await ended), printed], [0, null, `${join(cache, "llama-server")}\n`], said);
});
