import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { endOf } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const script = fileURLToPath(new URL("../../hack/llama-server.sh", import.meta.url));
const text = readFileSync(script, "utf8");
const version = /^version=(.*)$/m.exec(text)?.[1] ?? assert.fail();
const build = `berth/llama-server/${version}-${process.arch === "arm64" ? "aarch64" : "x86_64"}`;
const { PATH } = process.env;

it("other flags of the compiler are another build", async () => {
  const cacheOf = async (changed: string): Promise<string> => {
    // The beginning, up to the place of the cache.
    const [beginning = ""] = changed.split(/^binary=/m);
    const shell = ["-c", `${beginning}echo "$cache"`, script];
    return (await endOf("sh", shell, { XDG_CACHE_HOME: "/c" })).stdout.trim();
  };
  assert.equal(await cacheOf(text), `/c/${build}`);
  for (const [flag, other] of [
    ["-O1 -DNDEBUG", "-O2 -DNDEBUG"],
    ["-DGGML_NATIVE=OFF", "-DGGML_NATIVE=ON"],
  ] as const) {
    assert.ok(text.includes(flag));
    assert.match(await cacheOf(text.replace(flag, other)), new RegExp(`^/c/${build}-[0-9a-f]{12}$`));
  }
});

it("a second build of llama-server waits for the first, and takes what that has built", async () => {
  await using directory = await tempDir();
  const cache = join(directory.path, build);
  await mkdir(cache, { recursive: true });
  const first = spawn("flock", [cache, "sh", "-c", "echo builds; read -r _"], { stdio: ["pipe", "pipe", "inherit"] });
  await once(first.stdout, "data");
  const second = spawn(script, { env: { PATH, XDG_CACHE_HOME: directory.path }, stdio: ["ignore", "pipe", "pipe"] });
  let [said, printed] = ["", ""];
  second.stderr.setEncoding("utf8").on("data", (more: string) => (said += more));
  second.stdout.setEncoding("utf8").on("data", (more: string) => (printed += more));
  const ended = once(second, "close");
  await until("it waits", () => said === `llama-server ${version}: another run builds it; waiting\n`);
  for (const name of ["llama-server", "llama-fit-params"])
    await writeFile(join(cache, name), "#!/bin/sh\n", { mode: 0o755 });
  first.stdin.end();
  assert.deepEqual([...(await ended), printed], [0, null, `${join(cache, "llama-server")}\n`], said);
});
