import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { isRecord } from "../../src/lib/record.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { pngSize } from "../support/png.ts";
import { until } from "../support/until.ts";
import { later } from "../support/later.ts";

const double = fileURLToPath(new URL("../doubles/comfyui.ts", import.meta.url));

async function engineOf(berth: RunningBerth): Promise<string> {
  const { port } = await berth.slot("img");
  return `http://127.0.0.1:${String(port)}`;
}

/** The paths that the double was asked for. */
async function calls(berth: RunningBerth): Promise<string[]> {
  const list: unknown = await (await fetch(`${await engineOf(berth)}/double/calls`)).json();
  return Array.isArray(list) ? list.map((call) => (isRecord(call) ? String(call["path"]) : "")) : [];
}

test("images through the whole service, from a cold slot, by the OpenAI client", async (t) => {
  await using berth = await startBerth({
    prepare: async ({ configDir }) => {
      const command = JSON.stringify([process.execPath, double, "--work-ms", "200", "--start-delay-ms", "300"]);
      const manifest = `load = "onDemand"\ncommand = ${command}\n[model]\ndefault = "sdxl-turbo"\n`;
      await writeFile(join(configDir, "slots/img.toml"), manifest);
    },
  });
  await until("img is published", async () => (await berth.slot("img"))["enabled"] === true);
  const client = new OpenAI({ apiKey: "none", baseURL: `${berth.url}/v1`, maxRetries: 0 });

  await t.test("a cold slot is loaded by the first request, which waits for it", async () => {
    assert.equal((await berth.slot("img"))["state"], "offline");
    const asked = { model: "img", prompt: "a cat", n: 2, size: "512x512", seed: 7, steps: 2 } as const;
    const answer = await client.images.generate({ ...asked, response_format: "b64_json" });
    const sizes = answer.data?.map(({ b64_json: png = "" }) => pngSize(Buffer.from(png, "base64")));
    assert.deepEqual(sizes, [
      { width: 512, height: 512 },
      { width: 512, height: 512 },
    ]);
    assert.ok("_svc" in answer);
    assert.deepEqual(answer._svc, {
      workflow: "sdxl-turbo",
      checkpoint: "sd_xl_turbo_1.0_fp16.safetensors",
      seed: 7,
    });
  });

  await t.test("the url of an image is a path that the same service answers", async () => {
    const answer = await client.images.generate({ model: "sd-1.5-pruned-emaonly", prompt: "a cat" });
    const path = answer.data?.[0]?.url ?? "";
    assert.match(path, /^\/api\/images\/cache\/[0-9a-f-]{36}\.png$/);
    const image = await fetch(new URL(path, berth.url));
    assert.deepEqual(pngSize(Buffer.from(await image.arrayBuffer())), { width: 512, height: 512 });
  });

  await t.test("errors are those that the client knows", async () => {
    const ask = (fields: Partial<OpenAI.ImageGenerateParamsNonStreaming>): Promise<unknown> =>
      client.images.generate({ model: "img", prompt: "a cat", ...fields });
    await assert.rejects(ask({ size: "1000x1001" }), OpenAI.BadRequestError);
    await assert.rejects(ask({ model: "dall-e-9" }), OpenAI.NotFoundError);
    await assert.rejects(ask({ model: "flux-schnell" }), { status: 501, code: "system.not_implemented" });
  });

  await t.test("a client that leaves interrupts the engine", async () => {
    const leaving = new AbortController();
    const { signal } = leaving;
    // However late the gateway notices it, there is work to interrupt.
    await fetch(`${await engineOf(berth)}/double/never`, { method: "POST" });
    const prompts = (await calls(berth)).filter((path) => path === "/prompt").length;
    const drawing = later(client.images.generate({ model: "img", prompt: "a cat" }, { signal }));
    await until(
      "the engine has it",
      async () => (await calls(berth)).filter((path) => path === "/prompt").length > prompts,
    );
    leaving.abort();
    await assert.rejects(drawing, OpenAI.APIUserAbortError);
    await until("the engine is interrupted", async () => (await calls(berth)).includes("/interrupt"));
  });
});
