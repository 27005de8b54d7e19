import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { freePorts } from "../../support/ports.ts";
import { atLeast, atMost, median, mebibyte, range, told, type Bar } from "../bar.ts";
import { nginxFiles } from "../machine/nginx.ts";

const exec = promisify(execFile);
const sizeBytes = 2048 * mebibyte;
const program = new URL("../../models/fetch/program.ts", import.meta.url).pathname;
const command = new URL("../../../bin/berth", import.meta.url);

/** One large file from a server of this machine, by curl and as models are fetched, in turns. */
export const pull: Bar = {
  name: "pull",
  about: "a model file of 2 GiB, SHA-256 included, against curl",
  async run(bench) {
    const { rounds } = bench;
    await using directory = await tempDir();
    const root = join(directory.path, "root");
    await mkdir(root);
    await writeRandom(join(root, "model.bin"), sizeBytes);
    await writeRandom(join(root, "small.bin"), 16 * mebibyte);
    const { first: port } = await freePorts(1);
    const [nginx = "nginx", ...args] = await nginxFiles(join(directory.path, "nginx"), { port, root });
    const server = spawn(nginx, args, { stdio: "ignore" });
    try {
      const url = `http://127.0.0.1:${port}/model.bin`;
      await until("nginx answers", async () => (await fetch(url, { method: "HEAD" })).ok);
      const flags = await operatorFlags();
      const env = { ...process.env, NODE_COMPILE_CACHE: join(directory.path, "compiled") };
      const fetched = async (out: string, file: string): Promise<{ seconds: number; grownBytes: number }> => {
        const args = [...flags, program, out, "model", `http://127.0.0.1:${port}/${file}`];
        const { stdout } = await exec(process.execPath, args, { env });
        return JSON.parse(stdout);
      };
      // Fills the cache of compiled code, which an operator finds filled.
      await fetched(join(directory.path, "first"), "small.bin");
      const curl: number[] = [];
      const ours: number[] = [];
      const grown: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const out = join(directory.path, "out");
        await exec("sync");
        const began = performance.now();
        await exec("curl", ["-s", "-o", out, url]);
        curl.push((performance.now() - began) / 1000);
        await rm(out);
        await exec("sync");
        const found = await fetched(out, "model.bin");
        ours.push(found.seconds);
        grown.push(found.grownBytes / mebibyte);
        await rm(out, { recursive: true });
        bench.say(`round ${round + 1}: curl ${curl.at(-1)?.toFixed(2)} s, pull ${found.seconds.toFixed(2)} s`);
      }
      const share = median(curl.map((seconds, index) => seconds / (ours[index] ?? Number.NaN)));
      return [
        atLeast(
          "pull of 2 GiB: speed, as a share of curl's",
          share,
          0.5,
          "×",
          range(curl.map((s, i) => s / (ours[i] ?? 1))),
        ),
        atMost("pull of 2 GiB: memory of the process", median(grown), 35, " MiB", range(grown)),
        told("curl", `${median(curl).toFixed(2)} s`),
      ];
    } finally {
      server.kill();
    }
  },
};

/** The limits of V8's memory with which `bin/berth` starts the operator, which fetches models. */
async function operatorFlags(): Promise<readonly string[]> {
  const found = /^ *operator\) small="([^"]+)"/m.exec(await readFile(command, "utf8"))?.[1];
  if (found === undefined) throw new Error("bin/berth names no flags of the operator");
  return found.split(" ");
}

async function writeRandom(path: string, bytes: number): Promise<void> {
  await using file = await open(path, "w");
  const block = randomBytes(16 * mebibyte);
  for (let written = 0; written < bytes; written += block.length) {
    block.writeUInt32LE(written / block.length);
    await file.write(block);
  }
}
