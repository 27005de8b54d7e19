import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import type { ModelPulls } from "../../../src/models/fetch/model-pulls.ts";
import { openModelPulls, type ModelPullsConfig } from "../../../src/models/fetch/open.ts";
import type { WantedModel } from "../../../src/models/fetch/wanted-model.ts";
import { rangeOf, startFileServer, type FileServer } from "../../doubles/file-server.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { contentRange, ggufOf, mebibyte, rangesOf } from "./site.ts";

const requester = (name: string) => ({ requester: name, attempt: "1" });
const [shared, other] = [ggufOf(4 * mebibyte + 3), ggufOf(mebibyte)];

const partOf = (pulls: ModelPulls): Promise<unknown> =>
  until("two blocks are there", () => pulls.list().some(({ job }) => job.progress.bytesDone === 2 * mebibyte));

/** Sends 2 MiB of a file, and nothing more until it is released. */
function hold(server: FileServer, path: string): void {
  server.behave = (request, response, serve, file) => {
    const range = file === undefined || request.url !== path ? undefined : rangeOf(request, file.body);
    if (range === undefined || file === undefined || request.method !== "GET") return serve();
    const [from, to] = range;
    const headers = { etag: file.etag ?? "", "content-range": contentRange(from, to, file.body) };
    response.writeHead(206, headers).write(file.body.subarray(from, Math.min(to, from + 2 * mebibyte)));
  };
}

async function site() {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const files = { "/shared.gguf": { body: shared, etag: '"s"' }, "/other.gguf": { body: other, etag: '"o"' } };
  const server = stack.use(await startFileServer(files));
  const onError = (error: unknown): never => assert.fail(String(error));
  const config = { modelsDir: directory.path, boot: "b", env: {}, bytesPerSecond: 0, reserveBytes: 0, onError };
  const owned = stack.move();
  const wanted = (ref: string, ...names: string[]): WantedModel => ({
    ref,
    files: names.map((name) => ({ source: `${server.url}/${name}.gguf` })),
    isOpen: false,
  });
  return {
    server,
    wanted,
    open: async (more: Partial<ModelPullsConfig> = {}) => await openModelPulls({ ...config, ...more }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

it("a cancelled pull keeps the bytes of a source that a paused pull needs", async () => {
  await using at = await site();
  await using opened = await at.open();
  const { pulls, store } = opened;
  const [kept, cancelled] = [at.wanted("kept", "shared"), at.wanted("cancelled", "shared", "other")];
  hold(at.server, "/shared.gguf");
  await pulls.join(kept, requester("p"));
  await partOf(pulls);
  pulls.pause(kept, "p");
  await pulls.join(cancelled, requester("q"));
  await pulls.cancel(cancelled, "q");
  const partial = store.partialDirectory(kept.files[0]?.source ?? "");
  assert.equal(existsSync(join(partial, "data")), true, "the bytes of the paused pull are there");
  at.server.behave = (_request, _response, serve) => serve();
  at.server.asked.length = 0;
  pulls.resume(kept);
  await until("the model is there", async () => await pulls.isThere(kept));
  assert.deepEqual(rangesOf(at.server, "/shared.gguf"), [`bytes=${2 * mebibyte}-${shared.length - 1}`]);
  await until("nothing stays once no pull needs it", () => !existsSync(partial));
});

it("a cancelled pull keeps the bytes of a requested pull that has not begun again", async () => {
  await using at = await site();
  const [kept, cancelled] = [at.wanted("kept", "shared"), at.wanted("cancelled", "shared")];
  hold(at.server, "/shared.gguf");
  {
    await using before = await at.open();
    const { pulls } = before;
    await pulls.join(kept, requester("p"));
    await partOf(pulls);
  }
  await using opened = await at.open({ requested: () => [kept] });
  const { pulls, store } = opened;
  await pulls.join(cancelled, requester("q"));
  await pulls.cancel(cancelled, "q");
  assert.equal(existsSync(join(store.partialDirectory(kept.files[0]?.source ?? ""), "data")), true);
});
