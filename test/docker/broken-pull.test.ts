import assert from "node:assert/strict";
import { readFile, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import Dockerode from "dockerode";
import type { SlotStatus } from "../../src/api/status.ts";
import { startRegistryDouble } from "../doubles/registry.ts";
import { startBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { testDaemon } from "./daemon.ts";
import { testSocket } from "./docker-site.ts";
import { engineLayers } from "./images.ts";

const isPodman = process.env["BERTH_TEST_ENGINE"] === "podman";
const firstBreak = 4_000_000;
const secondBreak = 6_000_000;

/** Podman keeps a layer once it is unpacked, which nothing of its API tells. */
async function keptByPodman(api: Dockerode, digest: string): Promise<void> {
  const { DockerRootDir: root }: { DockerRootDir: string } = await api.info();
  await until("the first layer is kept", async () =>
    (await readFile(join(root, "overlay-layers/layers.json"), "utf8")).includes(digest),
  );
}

/**
 * Docker goes on within the layer, and fails at the second break, since the test's daemon was told to go on once.
 * Podman fails at the first one. Either way the operator begins another pull, which ends well.
 */
test("a pull whose connection breaks within a layer", { timeout: 300_000 }, async (context: TestContext) => {
  await using directory = await tempDir();
  const { files, config } = await engineLayers(directory.path, [8_000_000, 100_000]);
  const sizes = await Promise.all(files.map(async (file) => (await stat(file)).size));
  const bytesTotal = sizes.reduce((sum, size) => sum + size, 0);
  await using registry = await startRegistryDouble();
  const { image, layers } = await registry.add("berth-test/broken:1", files, config);
  const [engine = "", large = "", small = ""] = layers;
  await using daemon = isPodman ? undefined : await testDaemon({ downloadAttempts: 1 });
  await daemon?.start();
  const socket = daemon?.socketPath ?? testSocket();
  const others = Promise.all([registry.sent(engine), registry.sent(small)]).then(
    async () => isPodman && (await keptByPodman(new Dockerode({ socketPath: socket }), engine)),
  );
  const goesOn = Promise.withResolvers<void>();
  const anew = Promise.withResolvers<void>();
  registry.meet(large, { after: others, cutAt: firstBreak });
  if (!isPodman) registry.meet(large, { after: goesOn.promise, cutAt: secondBreak });
  registry.meet(large, { after: anew.promise });
  const asked = (digest: string): readonly number[] =>
    registry.fetched.filter((fetch) => fetch.digest === digest).map(({ from }) => from);

  const slot = `engine = "custom"\nimage = "${image}"\n[model]\ndefault = "double"\n`;
  await using running = await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${socket}` },
    prepare: async ({ configDir }) => await writeFile(join(configDir, "slots/primary.toml"), slot),
  });
  const status = async (): Promise<SlotStatus | undefined> =>
    (await readPublished(running.stateDir, "primary"))?.status;
  const said = async (): Promise<string> => (await readPublished(running.stateDir, "primary"))?.plan.message ?? "";

  if (!isPodman) {
    await until("the break is told", async () => /its connection broke, .* goes on/.test(await said()));
    const { state, progress: { bytesTotal: told = 0, bytesDone = 0 } = {} } = (await status()) ?? {};
    assert.equal(state, "pulling");
    // Two layers are here whole, the small one maybe before Docker said a word of its size, and something of the third.
    assert.ok(told === bytesTotal || told === bytesTotal - (sizes[2] ?? 0), `${told} of ${bytesTotal} bytes`);
    const missing = told - bytesDone;
    assert.ok(missing > 0 && missing < 8_000_000 + 10_240, `${missing} bytes are missing`);
    goesOn.resolve();
  }
  await until("another pull has begun", () => asked(large).length === (isPodman ? 2 : 3));
  await until("it is told", async () => (await status())?.state === "pulling");
  const failed = (await status())?.transitions.find(({ to }) => to === "error");
  assert.equal(failed?.reason, "PullFailed");
  assert.match(failed?.message ?? "", /could not be fetched \(.*unexpected EOF/);
  if (isPodman) assert.deepEqual([asked(engine), asked(large)], [[0], [0, 0]], "no whole layer is fetched twice");
  else {
    const [first, second = 0, third] = asked(large);
    assert.deepEqual([first, third], [0, 0]);
    assert.ok(second > 0 && second <= firstBreak, `went on at ${second}`);
  }
  anew.resolve();
  await until("it is ready", async () => (await status())?.state === "ready");
  const { transitions = [], restarts } = (await status()) ?? {};
  assert.deepEqual(
    transitions.slice(0, 4).map(({ to }) => to),
    ["pulling", "error", "pulling", "starting"],
  );
  assert.equal(restarts, 0);
  const counts = [engine, large, small].map((digest) => asked(digest).join("+"));
  context.diagnostic(`each layer was asked for from these bytes on: ${counts.join(", ")}`);
});

test("a pull ends when its slot is deleted", { timeout: 120_000 }, async () => {
  await using directory = await tempDir();
  const { files, config } = await engineLayers(directory.path, [100_000]);
  await using registry = await startRegistryDouble();
  const { image, layers } = await registry.add("berth-test/unwanted:1", files, config);
  // Docker 20.10 looks at the end of a pull only when more of a layer comes.
  for (const layer of layers) registry.meet(layer, { cutAt: 100, isSlow: true });
  await using daemon = isPodman ? undefined : await testDaemon();
  await daemon?.start();
  const slot = `engine = "custom"\nimage = "${image}"\n[model]\ndefault = "double"\n`;
  await using running = await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${daemon?.socketPath ?? testSocket()}` },
    prepare: async ({ configDir }) => await writeFile(join(configDir, "slots/unwanted.toml"), slot),
  });
  const waiting = (): readonly boolean[] =>
    registry.fetched.filter(({ digest }) => layers.includes(digest)).map(({ hasLeft }) => !hasLeft());
  await until("its layers are asked for", () => waiting().length === layers.length);
  assert.ok(waiting().every(Boolean));
  await unlink(join(running.configDir, "slots/unwanted.toml"));
  await until("the container engine has left", () => !waiting().includes(true));
});
