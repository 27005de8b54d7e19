import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { berthProcess } from "../support/command.ts";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { cudaVersion, mebibyte, mebibytes, readCard } from "./card.ts";
import { operatorOf, sharedModels, shellOf, startOnGpu } from "./fixture.ts";

describe("the probe of a machine with an NVIDIA GPU", () => {
  it("reports the GPU as nvidia-smi does: name, memory, usable and free, compute capability, CUDA, MIG", async (test) => {
    const models = await sharedModels();
    await using berth = await startOnGpu(models, {});
    // It asks llama-server for its devices first, which takes memory of the GPU meanwhile.
    await until("the operator has begun", async () => (await operatorOf(berth))["isSettled"] === true);
    const { stdout, stderr, code } = await berthProcess(["probe", "-o", "json"], shellOf(berth));
    assert.equal(code, 0, stderr);
    const card = await readCard();
    const probed = record(JSON.parse(stdout));
    const [gpu] = list(probed["gpus"]).filter(({ vendor }) => vendor === "nvidia");
    assert.ok(gpu !== undefined, stdout);
    const { name, memory_bytes: total, memory_usable_bytes: usable, memory_free_bytes: free } = gpu;
    test.diagnostic(
      `${String(name)}: ${mebibytes(Number(total))}, ${mebibytes(Number(usable))} usable, ${mebibytes(Number(free))} free ` +
        `(nvidia-smi: ${mebibytes(card.freeBytes)}), compute capability ${String(gpu["compute_capability"])}, ` +
        `CUDA ${String(gpu["cuda_version"])}, MIG ${String(gpu["mig"])}`,
    );
    const expected = {
      id: card.address,
      name: card.name,
      memory_bytes: card.totalBytes,
      memory_usable_bytes: card.usableBytes,
      compute_capability: card.computeCapability,
      cuda_version: await cudaVersion(),
      mig: { Enabled: true, Disabled: false }[card.mig] ?? null,
    };
    assert.deepEqual(Object.fromEntries(Object.keys(expected).map((key) => [key, gpu[key]])), expected);
    assert.ok(Math.abs(Number(free) - card.freeBytes) <= 64 * mebibyte, `${String(free)} for ${card.freeBytes}`);
    assert.ok(Array.isArray(gpu["backends"]) && gpu["backends"].includes("cuda"));
    const { backend, available, obstacles } = record(record(probed["suggested"])["llama"]);
    assert.deepEqual([backend, available, obstacles], ["cuda", true, []]);

    const byApi = record(await berth.get("/api/hardware"));
    const [known] = list(byApi["gpus"]).filter(({ id }) => id === card.address);
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(known?.[key], value, `/api/hardware: ${key}`);
  });

  it("lets berth doctor say that the GPU and llama-server go together", async (test) => {
    const models = await sharedModels();
    await using berth = await startOnGpu(models, {});
    const { stdout } = await berthProcess(["doctor"], shellOf(berth));
    const lines = stdout.split("\n").filter((line) => /^\w+ +(?:gpu|devices|llama-server|engine\w*):/.test(line));
    for (const line of lines) test.diagnostic(line);
    assert.match(stdout, /^ok +gpu: llama-server computes on CUDA0 \(/m);
    assert.match(stdout, /^ok +devices: .*\/dev\/nvidiactl.*; backend auto is cuda for llama$/m);
    assert.doesNotMatch(stdout, /^(?:warn|fail) +(?:gpu|devices):/m);
  });
});
