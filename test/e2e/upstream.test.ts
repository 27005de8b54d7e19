import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { startProvider } from "../doubles/provider.ts";
import { startBerth } from "../support/berth.ts";
import { envelopeOf } from "../support/envelope.ts";
import { until } from "../support/until.ts";

test("declare a provider in a file, get its models; edit it, rotate its key, remove it", async () => {
  await using double = await startProvider({ models: ["m1"] });
  let file = "";
  let keyFile = "";
  const declare = (more: string): Promise<void> =>
    writeFile(file, `baseUrl: ${double.baseUrl}\nauth:\n  type: bearer\n  valueFrom:\n    file: ${keyFile}\n${more}`);
  await using berth = await startBerth({
    async prepare({ configDir }) {
      await mkdir(join(configDir, "upstreams"));
      file = join(configDir, "upstreams/acme.yaml");
      keyFile = join(configDir, "acme.key");
      await writeFile(keyFile, "first-key-0123456789\n");
      await declare("discover:\n  prefix: acme/\n");
    },
  });
  const ask = (model: string): Promise<Response> =>
    fetch(new URL("/v1/chat/completions", berth.url), {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer the-clients-own" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "hello" }] }),
    });

  await until("the discovered model is served", async () => (await ask("acme/m1")).ok);
  assert.equal(double.posts.at(-1)?.headers.authorization, "Bearer first-key-0123456789");

  await writeFile(keyFile, "second-key-0123456789\n");
  await until("the new key is used", async () => {
    await ask("acme/m1");
    return double.posts.at(-1)?.headers.authorization === "Bearer second-key-0123456789";
  });

  await declare("models:\n  - ref: big\n    upstreamModel: m9\n");
  await until("the declared model is served", async () => (await ask("big")).ok);
  assert.match(double.posts.at(-1)?.body ?? "", /"model":"m9"/);
  assert.equal((await envelopeOf(await ask("acme/m1"))).error.code, "model.not_found");

  await rm(keyFile);
  await until("the key is missed", async () => (await ask("big")).status === 502);
  await until("the log tells why", async () => /upstream acme: the file .*acme\.key does not exist/.test(berth.log()));

  await rm(file);
  await until("it is gone", async () => (await ask("big")).status === 404);
  assert.doesNotMatch(berth.log(), /-key-0123456789/);
});
