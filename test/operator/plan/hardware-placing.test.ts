import assert from "node:assert/strict";
import { test } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { followHardware } from "../../../src/operator/observe/hardware.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openHardwareStore } from "../../../src/store/state/hardware.ts";
import { device } from "../../hardware/parts.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { noDevicesHere, Site } from "../site.ts";

test("a driver that is loaded while a slot runs restarts nothing, under the next operator either; its next load takes the new backend", async () => {
  await using directory = await tempDir();
  await using store = await openHardwareStore(documentsInFiles(directory.path));
  let facts: HardwareFacts = pcFacts;
  await using site = new Site();
  const follow = (): ReturnType<typeof followHardware> =>
    followHardware({
      store,
      probe: async () => facts,
      published: site.publisher.slots.values(),
      onError: assert.ifError,
    });
  await using first = await follow();
  let hardware = first;
  site.shippedImages = {
    llama: { cpu: { image: "example.test/llama:cpu" }, cuda: { image: "example.test/llama:cuda" } },
  };
  site.machine = { ...noDevicesHere, devicesFor: (slot, isRunning) => hardware.devicesFor(slot, isRunning) };
  site.runtime.isContainerEngineUp = true;
  const backend = (): unknown => [site.slot("a").status.decisions["backend"], site.slot("a").status.image];
  const starts = (): number => site.runtime.deeds.filter(({ did }) => did === "start").length;
  site.source.save("a", { runtime: "docker", model: { default: "tiny" } });
  await site.start();
  await site.advance(2);
  const onCpu = [{ value: "cpu", reason: "there is no GPU" }, "example.test/llama:cpu"];
  assert.deepEqual([site.state("a"), backend(), starts()], ["ready", onCpu, 1]);

  facts = { ...pcFacts, kernel: "with card", devices: [device("/dev/nvidiactl")] };
  await store.requestProbe({ schema: 1, token: "t", requestedAt: "2026-01-01T00:00:00.000Z" });
  await until("the operator has looked again", () => store.found()?.answers === "t");
  await site.controller.resync();
  await site.advance(2);
  assert.deepEqual([site.state("a"), backend(), starts()], ["ready", onCpu, 1]);

  await using second = await follow();
  hardware = second;
  await site.start();
  await site.advance(2);
  assert.deepEqual([site.state("a"), backend(), starts()], ["ready", onCpu, 1], "nor does the next operator");

  await site.request("a", "restart");
  await site.advance(60);
  const onCuda = [{ value: "cuda", reason: "there is an NVIDIA driver" }, "example.test/llama:cuda"];
  assert.deepEqual([site.state("a"), backend(), starts()], ["ready", onCuda, 2]);
});
