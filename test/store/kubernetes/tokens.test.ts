import assert from "node:assert/strict";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { tokenOwner } from "../../../src/api/token.ts";
import { openTokenSecret, SecretTokens } from "../../../src/store/kubernetes/tokens.ts";
import { ConversationStore } from "../../../src/gateway/conversations/store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const nothing = (): void => undefined;
const anyToken = { label: "x", scope: "all" } as const;
const conversation = {
  id: "conversation1",
  title: "t",
  model: "m",
  updated_at: "2026-11-24T00:00:00.000Z",
  parameters: { system: "", temperature: "", maxTokens: "" },
  messages: [],
};

describe("the copy of tokens in a cluster", () => {
  it("says so where it cannot follow, and replaces a file that is not as the Secret has it", async () => {
    await using dir = await tempDir();
    using api = new ApiDouble();
    const errors: unknown[] = [];
    await using secret = await openTokenSecret(api, nothing);
    await using tokens = await SecretTokens.open(dir.path, secret, (error) => void errors.push(error));
    const { id, token } = await tokens.create({ label: "x", scope: "all" });
    const presented = { id, secret: token.slice(token.indexOf(".") + 1) };
    assert.equal(tokens.verify(presented)?.scope, "all");
    // As after a power cut.
    await writeFile(join(tokens.path, `${id}.json`), "");
    assert.equal((await tokens.list()).length, 1);
    assert.equal(tokens.verify(presented)?.scope, "all");
    await rm(tokens.path, { recursive: true });
    await writeFile(tokens.path, "no directory");
    const path = "/api/v1/namespaces/berth/secrets/berth-tokens";
    api.put(path, { ...api.get(path), data: {} });
    await until("the failure is told", () => errors.length > 0);
    await rm(tokens.path);
    await mkdir(tokens.path);
    assert.deepEqual(await tokens.list(), []);
  });

  it("refuses every revoked token, also where a holder's conversations cannot be deleted", async () => {
    await using directory = await tempDir();
    using api = new ApiDouble();
    await using secret = await openTokenSecret(api, nothing);
    const errors: unknown[] = [];
    await using tokens = await SecretTokens.open(directory.path, secret, (error) => void errors.push(error));
    for (let count = 0; count < 3; count += 1) await tokens.create(anyToken);
    await writeFile(join(directory.path, "conversations"), "no directory");
    const path = "/api/v1/namespaces/berth/secrets/berth-tokens";
    api.put(path, { ...api.get(path), data: {} });
    await until("the failure is told", () => errors.length > 0);
    assert.deepEqual(await readdir(tokens.path), []);
  });

  it("goes with its holder's conversations where another gateway revokes it, and without them where the Secret goes", async () => {
    await using directory = await tempDir();
    using api = new ApiDouble();
    const gateway = async (name: string) => {
      await using stack = new AsyncDisposableStack();
      const stateDir = join(directory.path, name);
      await mkdir(stateDir);
      const secret = stack.use(await openTokenSecret(api, nothing));
      const tokens = stack.use(await SecretTokens.open(stateDir, secret, (error) => assert.fail(String(error))));
      const owned = stack.move();
      const kept = new ConversationStore(stateDir);
      return { tokens, kept, [Symbol.asyncDispose]: () => owned.disposeAsync() };
    };
    await using here = await gateway("here");
    await using there = await gateway("there");
    const [first, second] = [await here.tokens.create(anyToken), await here.tokens.create(anyToken)];
    const ids = [first.id, second.id] as const;
    await until("the tokens are copied", async () => (await there.tokens.list()).length === 2);
    for (const id of ids) await there.kept.write(tokenOwner(id), conversation);
    assert.equal((await there.kept.list(tokenOwner(first.id))).length, 1);
    await here.tokens.revoke(first.id);
    await until("its conversations are gone", async () => (await there.kept.list(tokenOwner(first.id))).length === 0);
    api.put("/api/v1/namespaces/berth/secrets/berth-tokens", undefined);
    await until("no token is left", async () => (await there.tokens.list()).length === 0);
    assert.equal((await there.kept.list(tokenOwner(second.id))).length, 1);
  });
});
