import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, open, rm } from "node:fs/promises";
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

/** One large file from a server of this machine, by curl and as models are fetched, in turns. */
export const pull: Bar = {
  name: "pull",
  about: "a model file of 2 GiB, SHA-256 included, against curl",
  async run(bench) {
    const { rounds } = bench;
    await using directory = await tempDir();
    const root = join(directory.path, "root");
    await mkdir(root);
    await writeRandom(join(root, "model.bin"));
    const { first: port } = await freePorts(1);
    const [command = "nginx", ...args] = await nginxFiles(join(directory.path, "nginx"), { port, root });
    const server = spawn(command, args, { stdio: "ignore" });
    try {
      const url = `http://127.0.0.1:${port}/model.bin`;
      await until("nginx answers", async () => (await fetch(url, { method: "HEAD" })).ok);
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
        const { stdout } = await exec(process.execPath, [program, out, "model", url]);
        const found: { seconds: number; grownBytes: number } = JSON.parse(stdout);
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
          0.8,
          "×",
          range(curl.map((s, i) => s / (ours[i] ?? 1))),
        ),
        atMost("pull of 2 GiB: memory of the process", median(grown), 40, " MiB", range(grown)),
        told("curl", `${median(curl).toFixed(2)} s`),
      ];
    } finally {
      server.kill();
    }
  },
};

async function writeRandom(path: string): Promise<void> {
  await using file = await open(path, "w");
  const block = randomBytes(16 * mebibyte);
  for (let written = 0; written < sizeBytes; written += block.length) {
    block.writeUInt32LE(written / block.length);
    await file.write(block);
  }
}
