import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { FileThread } from "../../../src/models/fetch/file-thread.ts";
import { ModelPulls } from "../../../src/models/fetch/model-pulls.ts";
import { openModelPulls } from "../../../src/models/fetch/open.ts";
import { startFileServer } from "../../doubles/file-server.ts";
import { otherUser } from "../../support/other-user.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { ggufOf } from "./site.ts";

it("a pull that may not write to the models directory says so, and may succeed later", async () => {
  await using directory = await tempDir();
  await using server = await startFileServer({ "/a.gguf": { body: ggufOf(5000), etag: '"1"' } });
  const config = {
    boot: "this boot",
    env: {},
    bytesPerSecond: 0,
    reserveBytes: 0,
    onError: (error: unknown) => assert.fail(String(error)),
  };
  await using opened = await openModelPulls({ ...config, modelsDir: directory.path });
  const { pulls } = opened;
  const closed = join(directory.path, ".berth", "partial");
  await chmod(directory.path, 0o755);
  await chmod(closed, 0o555);
  const model = { ref: "a", files: [{ source: `${server.url}/a.gguf` }], isOpen: false };
  const requester = { requester: "slot", attempt: "1" };
  const isRoot = process.geteuid?.() === 0;
  // Root may write everywhere: as another user it may not.
  if (isRoot) process.seteuid?.(otherUser);
  try {
    await pulls.join(model, requester);
    await until("the pull has failed", async () => (await pulls.preparation(model, requester)).state === "failed");
    const found = await pulls.preparation(model, requester);
    assert.ok(found.state === "failed");
    assert.deepEqual([found.reason, found.isTerminal, found.retryAt !== undefined], ["NoPermission", false, true]);
    assert.match(
      found.message,
      /^EACCES: permission denied, mkdir '.*\/partial\/.*': give the operator's user the right to write to the models/,
    );
  } finally {
    if (isRoot) process.seteuid?.(0);
    await chmod(closed, 0o755);
  }
  const again = { ...requester, attempt: "2" };
  await pulls.join(model, again);
  await until("the pull has ended", async () => await pulls.isThere(model));
});

it("a pull into a models directory in which the store could not be made says so, and may succeed later", async () => {
  await using directory = await tempDir();
  await using server = await startFileServer({ "/a.gguf": { body: ggufOf(5000), etag: '"1"' } });
  const onError = (error: unknown): void => assert.fail(String(error));
  const config = { boot: "this boot", env: {}, bytesPerSecond: 0, reserveBytes: 0, onError };
  const model = { ref: "a", files: [{ source: `${server.url}/a.gguf` }], isOpen: false };
  const requester = { requester: "slot", attempt: "1" };
  const isRoot = process.geteuid?.() === 0;
  await chmod(directory.path, 0o555);
  if (isRoot) process.seteuid?.(otherUser);
  await using stack = new AsyncDisposableStack();
  if (isRoot) stack.defer(() => process.seteuid?.(0));
  const { pulls } = stack.use(await openModelPulls({ ...config, modelsDir: directory.path }));
  await pulls.join(model, requester);
  const failed = await until("the pull has failed", async () => {
    const found = await pulls.preparation(model, requester);
    return found.state === "failed" ? found : undefined;
  });
  assert.equal(failed.reason, "NoPermission");
  assert.match(failed.message, /^EACCES: permission denied, mkdir '.*\/\.berth.*': give the operator's user the right/);
  if (isRoot) process.seteuid?.(0);
  await chmod(directory.path, 0o755);
  await pulls.join(model, { ...requester, attempt: "2" });
  await until("the pull has ended", async () => await pulls.isThere(model));
});

it("a pull that may not use a path elsewhere names that path, and not the models directory", async () => {
  await using directory = await tempDir();
  const store = await BlobStore.open(directory.path, "this boot");
  await using fileThread = new FileThread();
  const refused = async (path: string): Promise<string> => {
    const text = `EACCES: permission denied, open '${path}'`;
    const error = Object.assign(new Error(text), { code: "EACCES", path });
    const fetch = { fetch: async () => await Promise.reject(error), discard: async () => undefined };
    await using pulls = new ModelPulls({
      store,
      fetch,
      fileThread,
      onError: (failure) => assert.fail(String(failure)),
    });
    const model = { ref: "a", files: [{ source: "https://example.com/a.gguf" }], isOpen: false };
    const requester = { requester: "slot", attempt: "1" };
    await pulls.join(model, requester);
    const failed = await until("the pull has failed", async () => {
      const found = await pulls.preparation(model, requester);
      return found.state === "failed" ? found : undefined;
    });
    assert.equal(failed.reason, "NoPermission");
    return failed.message.replace(`${text}: give the operator's user the right to `, "");
  };
  assert.equal(await refused(join(store.root, "blobs", "x")), "write to the models directory");
  assert.equal(await refused("/etc/secret"), "use /etc/secret");
  assert.equal(await refused(`${store.root}-elsewhere/x`), `use ${store.root}-elsewhere/x`);
});
