import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { BlobStore } from "../../src/models/fetch/blob-store.ts";
import { HashThread } from "../../src/models/fetch/hash-thread.ts";
import { ModelPulls } from "../../src/models/fetch/model-pulls.ts";
import { openModelPulls } from "../../src/models/fetch/open.ts";
import { removeFiles } from "../../src/models/remove-files.ts";
import { ModelScan } from "../../src/models/scan.ts";
import { startFileServer } from "../doubles/file-server.ts";
import { otherUser } from "../support/other-user.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { ggufOf } from "./fetch/site.ts";

const requester = { requester: "slot", attempt: "1" };
const onError = (error: unknown): never => assert.fail(String(error));

async function failureOf(pulls: ModelPulls, source: string) {
  const model = { ref: "a", files: [{ source }], isOpen: false };
  await pulls.join(model, requester);
  return await until("the pull has failed", async () => {
    const found = await pulls.preparation(model, requester);
    return found.state === "failed" ? found : undefined;
  });
}

/** Root may write everywhere: as another user it may not. */
function asOther(): Disposable {
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(otherUser);
  return { [Symbol.dispose]: () => isRoot && process.seteuid?.(0) };
}

for (const [what, isMade, path] of [
  ["write to the models directory", true, ".*/partial/.*"],
  ["make the store in the models directory", false, ".*/\\.berth.*"],
] as const) {
  it(`a pull that may not ${what} says so, and may succeed later`, async () => {
    await using directory = await tempDir();
    await using server = await startFileServer({ "/a.gguf": { body: ggufOf(5000), etag: '"1"' } });
    const source = `${server.url}/a.gguf`;
    const config = {
      modelsDir: directory.path,
      boot: "this boot",
      env: {},
      bytesPerSecond: 0,
      reserveBytes: 0,
      onError,
    };
    await using stack = new AsyncDisposableStack();
    const before = isMade ? stack.use(await openModelPulls(config)) : undefined;
    const closed = isMade ? join(directory.path, ".berth", "partial") : directory.path;
    await chmod(directory.path, 0o755);
    await chmod(closed, 0o555);
    const other = stack.use(asOther());
    const { pulls } = before ?? stack.use(await openModelPulls(config));
    const failed = await failureOf(pulls, source);
    assert.deepEqual([failed.reason, failed.isTerminal, failed.retryAt !== undefined], ["NoPermission", false, true]);
    const right = "give the operator's user the right to write to the models";
    assert.match(failed.message, new RegExp(`^EACCES: permission denied, mkdir '${path}': ${right}`));
    other[Symbol.dispose]();
    await chmod(closed, 0o755);
    const model = { ref: "a", files: [{ source }], isOpen: false };
    await pulls.join(model, { ...requester, attempt: "2" });
    await until("the pull has ended", async () => await pulls.isThere(model));
  });
}

it("a pull that may not use a path elsewhere names that path, and not the models directory", async () => {
  await using directory = await tempDir();
  const store = await BlobStore.open(directory.path, "this boot");
  await using hashThread = new HashThread();
  for (const [path, right] of [
    [join(store.root, "blobs", "x"), "write to the models directory"],
    ["/etc/secret", "use /etc/secret"],
    [`${store.root}-elsewhere/x`, `use ${store.root}-elsewhere/x`],
  ] as const) {
    const text = `EACCES: permission denied, open '${path}'`;
    const error = Object.assign(new Error(text), { code: "EACCES", path });
    const fetch = { fetch: async () => await Promise.reject(error), discard: async () => undefined };
    await using pulls = new ModelPulls({ store, fetch, hashThread, onError });
    const { reason, message } = await failureOf(pulls, "https://example.com/a.gguf");
    assert.deepEqual([reason, message], ["NoPermission", `${text}: give the operator's user the right to ${right}`]);
  }
});

it("a scan says what was not searched in a directory with the name of a model file", async () => {
  await using directory = await tempDir();
  await chmod(directory.path, 0o755);
  const deep = join(directory.path, "1/2/3/4/5/6/deep.gguf");
  const closed = join(directory.path, "closed.gguf/inner");
  for (const path of [deep, closed]) await mkdir(path, { recursive: true });
  await chmod(closed, 0);
  const other = asOther();
  const found = await new ModelScan(directory.path).find([], [], new AbortController().signal);
  other[Symbol.dispose]();
  await chmod(closed, 0o755);
  const why = [
    `${deep} is a directory, and no model file; ${deep} was not searched: it lies more than 6 levels deep`,
    `${join(closed, "..")} is a directory, and no model file; ${closed} was not searched: the operator's user may not read it`,
  ];
  assert.deepEqual(
    found.map(({ state, message }) => [state, message]),
    why.map((message) => ["invalid", message]),
  );
});

it("a file that may not be deleted is named", async () => {
  await using directory = await tempDir();
  const closed = join(directory.path, "closed");
  await mkdir(closed);
  const path = join(closed, "a.gguf");
  await writeFile(path, "12345");
  await chmod(directory.path, 0o755);
  await chmod(closed, 0o555);
  const other = asOther();
  const options = { modelsDir: directory.path, ref: "a", files: [path], records: [], isDryRun: false };
  const { freedBytes, kept } = await removeFiles(options);
  other[Symbol.dispose]();
  await chmod(closed, 0o700);
  assert.equal(freedBytes, 0);
  assert.match(kept[0]?.reason ?? "", /^EACCES: permission denied, unlink '.*closed\/a\.gguf'$/);
});
