import assert from "node:assert/strict";
import { mkdir, truncate, writeFile } from "node:fs/promises";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import type { RunningBerth } from "../support/berth.ts";
import {
  contextFilesOf,
  keepContext,
  keepingSlot,
  longPrompt,
  testSwapAndBack,
  writeTwoModels,
} from "../support/kept-context.ts";
import { ask, post, record } from "../support/openai.ts";
import { processOf, startWithLlamaServer } from "./fixture.ts";

const isRoot = process.getuid?.() === 0;

async function startKeeping(keep: string): Promise<RunningBerth> {
  return await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTwoModels(modelsDir);
    await writeFile(join(configDir, "slots/primary.toml"), keepingSlot(keep));
  });
}

const short = { messages: [{ role: "user", content: longPrompt.slice(0, 800) }], max_tokens: 1 };

/** A slot of the tiny model that has answered once. */
async function startTiny(
  env: NodeJS.ProcessEnv = {},
  prepareState: (stateDir: string) => Promise<void> = async () => undefined,
  more = "",
): Promise<RunningBerth> {
  const berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await prepareState(join(configDir, "../state"));
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    const text = `${more}[model]\ndefault = "tiny"\nprompt_cache_bytes = 0\n${keepContext}`;
    await writeFile(join(configDir, "slots/primary.toml"), text);
  }, env);
  await using stack = new AsyncDisposableStack();
  stack.use(berth);
  await berth.state("primary", "ready", "idle");
  await ask(berth.url, "/v1/chat/completions", { ...short, model: "primary" });
  stack.move();
  return berth;
}

async function unload(berth: RunningBerth): Promise<void> {
  await post(berth.url, "/api/slots/primary/unload", {});
  await berth.state("primary", "offline");
}

async function load(berth: RunningBerth): Promise<Record<string, unknown>> {
  await post(berth.url, "/api/slots/primary/load", {});
  return await berth.state("primary", "ready", "idle");
}

describe("the context of a slot on the real llama-server", () => {
  it("is there again after a swap to another model and back: the long prompt is not read again", async (test) => {
    await testSwapAndBack(test, startKeeping);
  });

  it("is dropped where its file was cut, on which llama-server aborts, and where the engine hangs, which is killed at its limit", async () => {
    await using berth = await startTiny({}, undefined, "stop_seconds = 3\n");
    await unload(berth);
    const [file = ""] = await contextFilesOf(berth);
    await truncate(join(berth.stateDir, "contexts/primary/main", file), 3000);
    const { restarts, context } = await load(berth);
    assert.deepEqual([restarts, record(context)["result"]], [0, "dropped"]);
    assert.match(String(record(context)["message"]), /its file is not as it was saved/);
    assert.deepEqual(await contextFilesOf(berth), []);
    await ask(berth.url, "/v1/chat/completions", { ...short, model: "primary" });

    process.kill(processOf(await berth.slot("primary")).pid, "SIGSTOP");
    await unload(berth);
    assert.deepEqual(await contextFilesOf(berth), []);
    const { context: next } = await load(berth);
    assert.deepEqual([record(next)["result"], record(next)["tokens"]], ["dropped", 0]);
  });

  it(
    "is dropped on a full disk, which the engine does not always report",
    { skip: isRoot ? false : "needs root" },
    async () => {
      let mounted = "";
      await using berth = await startTiny({ SVC_DISK_RESERVE: "0" }, async (stateDir) => {
        mounted = join(stateDir, "contexts");
        await mkdir(mounted, { recursive: true });
        const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", mounted]);
        assert.equal(status, 0);
      });
      try {
        await unload(berth);
        const { context } = await load(berth);
        assert.deepEqual(
          [record(context)["result"], await contextFilesOf(berth)],
          ["dropped", []],
          JSON.stringify(context),
        );
      } finally {
        await berth.stop("SIGINT");
        spawnSync("umount", [mounted]);
      }
    },
  );
});
