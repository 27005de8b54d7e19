import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { startBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { chat, openStream, pidOf, writeSlot } from "./fixture.ts";

it("a written manifest becomes a served model, a broken edit of it is reported by place, and Ctrl-C ends all", async () => {
  await using berth = await startBerth({
    prepare: async ({ modelsDir }) => await writeTinyModel(join(modelsDir, "tiny.gguf")),
  });
  const good = '[model]\ndefault = "tiny"\n';
  await writeSlot(berth, "coder", good);
  await until("the slot is loaded", async () =>
    ["ready", "idle"].includes(String((await berth.slot("coder"))["state"])),
  );
  const stream = await openStream(berth, "coder");
  assert.match(stream.text(), /"model":"coder"/);
  assert.ok((await stream.ended).length > 0);

  await writeSlot(berth, "coder", '[model]\ndefalt = "tiny"\n');
  await until("the edit is reported", async () =>
    /coder\.toml:2:1: model\.defalt: unknown key; did you mean default\?/.test(
      JSON.stringify((await berth.slot("coder"))["conditions"]),
    ),
  );
  assert.equal((await chat(berth, "tiny"))[0], 200);
  const metrics = await (await fetch(new URL("/metrics", berth.url))).text();
  assert.match(metrics, /^berth_requests_total\{route="\/v1\/chat\/completions",slot="coder",code="200"\} 2$/m);
  assert.deepEqual(await chat(berth, "codr"), [404, "model.not_found"]);

  const engine = (await pidOf(berth, "coder")) ?? assert.fail("no engine is published");
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.equal(startTimeOf(engine), undefined);
});
