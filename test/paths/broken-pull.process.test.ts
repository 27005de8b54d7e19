import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { isRecord } from "../../src/lib/record.ts";
import { startHub } from "../doubles/hub.ts";
import { startBerth } from "../support/berth.ts";
import { operatorPid } from "../support/published.ts";
import { until } from "../support/until.ts";
import { chat, manifest, writeSlot } from "./fixture.ts";

const mebibyte = 1024 * 1024;

it("a slot fetches its model; the pull goes on after a broken connection and a killed operator, and the slot serves", async () => {
  const weights = randomBytes(4 * mebibyte);
  await using hub = await startHub({ "weights.bin": weights });
  hub.hold();
  await using berth = await startBerth({
    env: { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" },
    prepare: async (directories) => {
      await mkdir(join(directories.configDir, "models"));
      await writeFile(join(directories.configDir, "models/weights.toml"), 'source = "hf://acme/tiny/weights.bin"\n');
      await writeSlot(directories, "coder", manifest([], '[model]\ndefault = "weights"\n'));
    },
  });
  await berth.state("coder", "pulling");
  await until("half of it is there", async () => {
    const list = await berth.get("/api/pulls");
    const [job]: unknown[] = isRecord(list) && Array.isArray(list["data"]) ? list["data"] : [];
    return isRecord(job) && Number(job["bytes_done"]) >= mebibyte;
  });
  process.kill(operatorPid(berth), "SIGKILL");
  hub.server.asked.length = 0;
  hub.release();
  await berth.state("coder", "ready", "idle");
  const [first] = hub.server.asked.filter(({ path }) => path.startsWith("/signed/"));
  assert.match(first?.range ?? "", /^bytes=[1-9]/, "what was there is not fetched again");
  const model = await berth.get("/api/models/weights");
  assert.deepEqual(await readFile(isRecord(model) ? String(model["path"]) : ""), weights);
  assert.equal((await chat(berth, "coder"))[0], 200);
});
