import assert from "node:assert/strict";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import Dockerode from "dockerode";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { contextFilesOf, firstToken, keepContext, keepingSlot, swap, writeTwoModels } from "../support/kept-context.ts";
import { record } from "../support/openai.ts";
import { withoutContextPlace } from "../../src/engines/kept-context.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";
import { DockerSite, testSocket } from "./docker-site.ts";
import { importLlamaServer } from "./images.ts";

const api = new Dockerode({ socketPath: testSocket() });
const limitMs = 600_000;
const isPodman = process.env["BERTH_TEST_ENGINE"] === "podman";

/** A slot of two models on that image. */
async function startKeeping(image: string): Promise<RunningBerth> {
  return await startBerth({
    env: { SVC_RUNTIME: "docker", SVC_LLAMA_IMAGE: image, DOCKER_HOST: `unix://${testSocket()}` },
    prepare: async ({ configDir, modelsDir }) => {
      await writeTwoModels(modelsDir);
      await writeFile(join(configDir, "slots/primary.toml"), keepingSlot(keepContext));
    },
  });
}

async function inspected(running: RunningBerth): Promise<Dockerode.ContainerInspectInfo> {
  const { first, last } = running.ports;
  const all = await api.listContainers({ filters: { label: ["dev.berth.slot=primary"] } });
  const own = all.find(({ Labels: { "dev.berth.port": port } }) => Number(port) >= first && Number(port) <= last);
  assert.ok(own !== undefined);
  return await api.getContainer(own.Id).inspect();
}

describe("the context of a llama-server in a container", () => {
  it(
    "is there again after a swap and back, also of an image with another user, who sees its own directory alone",
    { timeout: limitMs },
    async () => {
      const image = await importLlamaServer(testSocket(), "kept-by-a-user", ["USER 12345:12345"]);
      await using berth = await startKeeping(image);
      await berth.state("primary", "ready", "idle");
      const { Mounts: mounts } = await inspected(berth);
      const own = join(berth.stateDir, "contexts/primary/main");
      const given = mounts.map(({ Source: source, Destination: target, RW: isWritable }) => [
        source,
        target,
        isWritable,
      ]);
      assert.deepEqual(
        new Set(given.map((mount) => mount.join(" "))),
        new Set([`${berth.modelsDir} ${berth.modelsDir} false`, `${own} /berth/context true`]),
      );
      const modes = [own, join(own, "..")].map(async (path) => ((await stat(path)).mode & 0o777).toString(8));
      assert.deepEqual(await Promise.all(modes), ["777", "700"], "nobody else of this machine can pass");
      await firstToken(berth);
      await swap(berth, "two");
      const [file = ""] = await contextFilesOf(berth);
      const { uid } = await stat(join(own, file));
      assert.notEqual(uid, process.getuid?.());
      await swap(berth, "one");
      const { context } = await berth.slot("primary");
      assert.equal(record(context)["result"], "restored", JSON.stringify(context));
      const again = await firstToken(berth);
      assert.ok(again.cached >= again.tokens - 64, `${again.cached} of ${again.tokens}`);
      const { Pid: pid } = (await inspected(berth)).State;
      assert.match(await readFile(`/proc/${pid}/status`, "utf8"), new RegExp(`^Uid:\\t${uid}\\t`, "m"));
      const inside = `/proc/${pid}/root`;
      assert.deepEqual(await readdir(join(inside, "berth")), ["context"]);
      await assert.rejects(stat(join(inside, berth.stateDir)), { code: "ENOENT" });
    },
  );

  it(
    "is left out where the daemon cannot mount its directory: the engine starts without",
    { timeout: limitMs, skip: isPodman ? "Podman makes a directory that it does not find" : false },
    async () => {
      await using site = new DockerSite();
      await using runtime = await site.open();
      const contextPlace = { source: join(site.stateDir, "contexts/primary/main"), target: "/berth/context" };
      const workload = { ...site.workload(await freePort()), contextPlace };
      await assert.rejects(runtime.ensure(workload), {
        name: "NoContextPlace",
        message: new RegExp(`^its container cannot have it: .*${contextPlace.source}`),
      });
      assert.deepEqual(await site.containers(), []);
      await runtime.ensure(withoutContextPlace(workload));
      await until("it runs", async () => (await runtime.observe("primary"))[0]?.isListening);
    },
  );
});
