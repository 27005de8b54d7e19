import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { parseToken, type PresentedToken } from "../../../src/api/token.ts";
import { lastAuthMode, noteAuthMode } from "../../../src/store/auth/token-confirmations.ts";
import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const store = fileURLToPath(new URL("../../../src/store/auth/tokens.ts", import.meta.url));

function presented(token: string): PresentedToken {
  const parts = parseToken(token);
  assert.ok(parts, `${token} has the shape of a token`);
  return parts;
}

const wrong = "A".repeat(43);
const ci = { label: "ci", scope: "all" } as const;

/** A state directory with a store of tokens, and further stores of the same. */
async function site() {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await tempDir());
  const tokens = stack.use(new TokenStore(dir));
  const owned = stack.move();
  return {
    dir,
    tokens,
    open: (): TokenStore => owned.use(new TokenStore(dir)),
    file: (id: string): string => join(tokens.path, `${id}.json`),
    used: (id = ""): string => join(dir, "auth", "used", id),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe("token store", { concurrency: true }, () => {
  it("confirms no token itself, and takes a torn record of the last gateway for one that required no credentials", async () => {
    await using at = await site();
    const { token } = await at.tokens.create(ci, { isConfirmed: false });
    await noteAuthMode(at.dir, true);
    await writeFile(join(at.dir, "auth", "mode.json"), "");
    assert.equal(await lastAuthMode(at.dir), false);
    await noteAuthMode(at.dir, true);
    assert.equal(await lastAuthMode(at.dir), true);
    assert.equal(at.tokens.verify(presented(token)), undefined);
  });

  it("makes tokens that only their whole text opens, also once it was right, and until the file holds another's hash", async () => {
    await using at = await site();
    const { tokens } = at;
    const created = await tokens.create(ci);
    assert.match(created.token, /^svc_[a-z0-9]{8}\.[A-Za-z0-9_-]{43}$/);
    assert.equal(created.token.slice(4, 12), created.id);
    assert.match(created.warning, /shown once/);
    const { id, secret } = presented(created.token);
    const { token: other } = await tokens.create({ label: "ci", scope: "admin" });
    assert.notEqual(presented(other).id, id);
    // Characters whose low bytes are the secret's.
    const alias = Array.from(secret, (char) => String.fromCharCode(char.charCodeAt(0) + 0x100)).join("");
    const short = secret.slice(0, -1);
    const odd = [wrong, `${secret}A`, short, `${secret}\u0141`, `${short}\u0141`, "", "\0".repeat(43), alias];
    for (const _turn of ["at first", "once it was right", "in another turn"]) {
      for (const each of [...odd, presented(other).secret])
        assert.equal(tokens.verify({ id, secret: each }), undefined, each);
      for (const each of [secret, "\0".repeat(43)])
        assert.equal(tokens.verify({ id: "zzzzzzzz", secret: each }), undefined);
      assert.equal(tokens.verify({ id, secret })?.label, "ci");
      if (_turn === "once it was right") await nextTurn();
    }
    const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
    await writeFile(at.file(id), (await readFile(at.file(id), "utf8")).replace(sha256(secret), sha256(wrong)));
    assert.equal(tokens.verify({ id, secret }), undefined);
    assert.ok(tokens.verify({ id, secret: wrong }));
    assert.equal(tokens.verify({ id, secret }), undefined);
  });

  it("keeps a hash and never the secret, in files that only their owner reads, also where a directory was left open", async () => {
    await using at = await site();
    await mkdir(at.tokens.path, { recursive: true });
    await chmod(at.tokens.path, 0o777);
    const { token, id } = await at.tokens.create(ci);
    const { secret } = presented(token);
    assert.deepEqual(await readdir(at.tokens.path), [`${id}.json`], "no temporary file is left");
    const text = await readFile(at.file(id), "utf8");
    assert.equal(text.includes(secret), false);
    assert.ok(text.includes(createHash("sha256").update(secret).digest("hex")));
    const mode = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;
    const modes = await Promise.all([at.file(id), at.tokens.path, join(at.dir, "auth")].map(mode));
    assert.deepEqual(modes, [0o600, 0o700, 0o700]);
  });

  it("revokes for every store at the next check, also where the token was just used", async () => {
    await using at = await site();
    const { tokens: here } = at;
    const there = at.open();
    const { token, id } = await here.create(ci);
    assert.ok(here.verify(presented(token)));
    assert.ok(there.verify(presented(token)));
    assert.equal(await there.revoke(id), true);
    assert.equal(here.verify(presented(token)), undefined);
    assert.equal(there.verify(presented(token)), undefined);
    assert.equal(await there.revoke(id), false);
    assert.deepEqual(await here.list(), []);
  });

  it("lists the oldest first, without secrets or hashes, and leaves out torn and foreign files", async () => {
    await using at = await site();
    const { tokens } = at;
    assert.deepEqual(await tokens.list(), [], "before there is a directory");
    const first = await tokens.create({ label: "first", scope: "read-only" });
    await until("the clock ticks", () => new Date().toISOString() > first.created_at);
    const second = await tokens.create({ label: "second", scope: "admin" });
    await writeFile(join(tokens.path, "torn1234.json"), '{"schema":1,"id":"torn1234"');
    await writeFile(join(tokens.path, "copy1234.json"), await readFile(join(tokens.path, `${first.id}.json`)));
    await writeFile(join(tokens.path, "README"), "a person's");
    const view = ({ id, label, scope, created_at }: typeof first): object => ({
      id,
      label,
      scope,
      created_at,
      last_used_at: null,
      is_confirmed: true,
    });
    assert.deepEqual(await tokens.list(), [view(first), view(second)]);
    const { secret } = presented(first.token);
    assert.equal(tokens.verify({ id: "copy1234", secret }), undefined, "a copy is no second token");
    assert.equal(tokens.verify({ id: "torn1234", secret }), undefined);
  });

  it("follows a scope that a person edited in the file", async () => {
    await using at = await site();
    const { tokens } = at;
    const { token, id } = await tokens.create({ label: "ci", scope: "admin" });
    assert.equal(tokens.verify(presented(token))?.scope, "admin");
    const file = at.file(id);
    await writeFile(file, (await readFile(file, "utf8")).replace('"admin"', '"read-only"'));
    assert.equal(tokens.verify(presented(token))?.scope, "read-only");
  });

  it("refuses every token where it cannot be read", async () => {
    await using at = await site();
    const { tokens } = at;
    await mkdir(join(at.dir, "auth"));
    await symlink(tokens.path, tokens.path);
    assert.throws(() => tokens.verify({ id: "abcd1234", secret: wrong }), { code: "ELOOP" });
    await assert.rejects(tokens.create(ci));
    await assert.rejects(tokens.list());
  });

  it("never leads out of its directory", async () => {
    await using at = await site();
    const { id } = await at.tokens.create(ci);
    for (const path of [`../tokens/${id}`, `..%2f${id}`, id.toUpperCase(), `${id}.json`, "", "a".repeat(33)])
      assert.equal(await at.tokens.revoke(path), false, path);
    assert.equal((await at.tokens.list()).length, 1);
  });

  it("loses nothing when several processes create and revoke at once", async () => {
    await using at = await site();
    const script = `
      const { TokenStore } = await import(${JSON.stringify(store)});
      const tokens = new TokenStore(${JSON.stringify(at.dir)});
      for (let turn = 0; turn < 5; turn++) {
        const kept = await tokens.create({ label: "kept", scope: "all" });
        const gone = await tokens.create({ label: "gone", scope: "all" });
        await tokens.revoke(gone.id);
        console.log(kept.token + " " + gone.token);
      }`;
    const run = promisify(execFile);
    const outputs = await Promise.all(
      [1, 2].map(async () => await run(process.execPath, ["--input-type=module", "-e", script])),
    );
    const pairs = outputs.flatMap(({ stdout }) => stdout.trim().split("\n")).map((line) => line.split(" "));
    assert.equal(pairs.length, 10);
    for (const [kept = "", gone = ""] of pairs) {
      assert.ok(at.tokens.verify(presented(kept)));
      assert.equal(at.tokens.verify(presented(gone)), undefined);
    }
    assert.equal((await at.tokens.list()).length, 10);
  });
});

describe("time of use", { concurrency: true }, () => {
  const lastUse = async (tokens: TokenStore): Promise<string | null | undefined> =>
    (await tokens.list())[0]?.last_used_at;

  it("is known at once where the token was used, and to others once written", async () => {
    await using at = await site();
    const { token, id } = await at.tokens.create(ci);
    const before = new Date().toISOString();
    {
      await using used = new TokenStore(at.dir);
      const began = performance.now();
      used.verify(presented(token));
      assert.ok(((await lastUse(used)) ?? "") >= before);
      const elsewhere = await lastUse(at.tokens);
      // It is written after a second, for which a busy machine may take to come here.
      if (performance.now() - began < 1000) assert.equal(elsewhere, null, "nothing is written per request");
    }
    assert.ok(((await lastUse(at.tokens)) ?? "") >= before, "written at the end");
    await at.tokens.revoke(id);
    assert.deepEqual(await readdir(at.used()), []);
  });

  it("is written while the service runs, soon after the first use in a while", async () => {
    for (const options of [{ useIntervalMs: 5 }, {}]) {
      await using at = await site();
      await using used = new TokenStore(at.dir, options);
      used.verify(presented((await used.create(ci)).token));
      await until("the time is written", async () => (await lastUse(at.tokens)) !== null);
    }
  });

  it("does not follow a wrong secret, and comes to no revoked token", async () => {
    await using at = await site();
    const { id } = await at.tokens.create(ci);
    at.tokens.verify({ id, secret: wrong });
    assert.equal(await lastUse(at.tokens), null);
    const { token, id: gone } = await at.tokens.create(ci);
    {
      await using used = new TokenStore(at.dir);
      used.verify(presented(token));
      await at.tokens.revoke(gone);
    }
    assert.deepEqual(await readdir(at.used()), []);
  });

  it("never goes back", async () => {
    await using at = await site();
    const { token, id } = await at.tokens.create(ci);
    const later = new Date(Date.now() + 60_000).toISOString();
    await mkdir(at.used());
    await writeFile(at.used(id), later);
    {
      await using used = new TokenStore(at.dir);
      used.verify(presented(token));
    }
    assert.equal(await lastUse(at.tokens), later);
  });
});
