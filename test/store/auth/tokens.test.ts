import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
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

describe("token store", { concurrency: true }, () => {
  it("takes a torn record of the last gateway for one that required no credentials", async () => {
    await using dir = await tempDir();
    await noteAuthMode(dir.path, true);
    await writeFile(join(dir.path, "auth", "mode.json"), "");
    assert.equal(await lastAuthMode(dir.path), false);
    await noteAuthMode(dir.path, true);
    assert.equal(await lastAuthMode(dir.path), true);
  });

  it("makes tokens that only their whole text opens", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const created = await tokens.create({ label: "ci", scope: "v1-only" });
    assert.match(created.token, /^svc_[a-z0-9]{8}\.[A-Za-z0-9_-]{43}$/);
    assert.equal(created.token.slice(4, 12), created.id);
    assert.match(created.warning, /shown once/);
    const { id, secret } = presented(created.token);
    assert.equal(tokens.verify({ id, secret })?.label, "ci");
    assert.equal(tokens.verify({ id, secret: wrong }), undefined);
    assert.equal(tokens.verify({ id: "zzzzzzzz", secret }), undefined);
    for (const odd of [`${secret}A`, secret.slice(0, -1), `${secret}\u0141`, ""])
      assert.equal(tokens.verify({ id, secret: odd }), undefined, odd);
    const alias = Array.from(secret, (char) => String.fromCharCode(char.charCodeAt(0) + 0x100)).join("");
    assert.equal(tokens.verify({ id, secret: alias }), undefined, "characters whose low bytes are the secret's");
    const { token: other } = await tokens.create({ label: "ci", scope: "admin" });
    assert.equal(tokens.verify({ id, secret: presented(other).secret }), undefined, "another token's secret");
    assert.notEqual(presented(other).id, id);
  });

  it("keeps a hash and never the secret, in files that only their owner reads", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { token, id } = await tokens.create({ label: "ci", scope: "all" });
    const { secret } = presented(token);
    const files = await readdir(tokens.path);
    assert.deepEqual(files, [`${id}.json`], "no temporary file is left");
    const text = await readFile(join(tokens.path, `${id}.json`), "utf8");
    assert.equal(text.includes(secret), false);
    assert.ok(text.includes(createHash("sha256").update(secret).digest("hex")));
    const mode = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;
    assert.equal(await mode(join(tokens.path, `${id}.json`)), 0o600);
    assert.equal(await mode(tokens.path), 0o700);
    assert.equal(await mode(join(dir.path, "auth")), 0o700);
  });

  it("closes a directory that was left open", async () => {
    await using dir = await tempDir();
    await mkdir(join(dir.path, "auth", "tokens"), { recursive: true });
    await chmod(join(dir.path, "auth", "tokens"), 0o777);
    await using tokens = new TokenStore(dir.path);
    await tokens.create({ label: "ci", scope: "all" });
    assert.equal((await stat(tokens.path)).mode & 0o777, 0o700);
  });

  it("revokes for every store at the next check, also where the token was just used", async () => {
    await using dir = await tempDir();
    await using here = new TokenStore(dir.path);
    await using there = new TokenStore(dir.path);
    const { token, id } = await here.create({ label: "ci", scope: "all" });
    assert.ok(here.verify(presented(token)));
    assert.ok(there.verify(presented(token)));
    assert.equal(await there.revoke(id), true);
    assert.equal(here.verify(presented(token)), undefined);
    assert.equal(there.verify(presented(token)), undefined);
    assert.equal(await there.revoke(id), false);
    assert.deepEqual(await here.list(), []);
  });

  it("reads the token's file once for the requests of one turn of the event loop, and no longer", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { token, id } = await tokens.create({ label: "ci", scope: "all" });
    const file = join(tokens.path, `${id}.json`);
    const text = await readFile(file);
    await nextTurn();
    assert.ok(tokens.verify(presented(token)));
    rmSync(file);
    assert.equal(tokens.verify({ id, secret: wrong }), undefined, "a wrong secret shares nothing");
    assert.equal(tokens.verify(presented(token)), undefined, "and its look counts for all");
    await writeFile(file, text);
    assert.ok(tokens.verify(presented(token)));
    rmSync(file);
    assert.ok(tokens.verify(presented(token)), "read in the same turn as what was let in");
    await nextTurn();
    assert.equal(tokens.verify(presented(token)), undefined);
    await writeFile(file, text);
    assert.ok(tokens.verify(presented(token)));
    rmSync(file);
    const answers = Array.from({ length: 100 }, () => tokens.verify(presented(token)) !== undefined);
    assert.equal(answers.at(-1), false, "a turn with many requests looks again");
  });

  it("lists the oldest first, without secrets or hashes, and leaves out torn and foreign files", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
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
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { token, id } = await tokens.create({ label: "ci", scope: "admin" });
    assert.equal(tokens.verify(presented(token))?.scope, "admin");
    const file = join(tokens.path, `${id}.json`);
    await writeFile(file, (await readFile(file, "utf8")).replace('"admin"', '"read-only"'));
    assert.equal(tokens.verify(presented(token))?.scope, "read-only");
  });

  it("opens with nothing else once the secret was right, and with it no longer once the file holds another's hash", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { token, id } = await tokens.create({ label: "ci", scope: "all" });
    const { secret } = presented(token);
    for (const _turn of [1, 2]) {
      for (const odd of [wrong, "\0".repeat(43), `${secret.slice(0, -1)}\u0141`])
        assert.equal(tokens.verify({ id, secret: odd }), undefined, odd);
      assert.equal(tokens.verify({ id: "zzzzzzzz", secret: "\0".repeat(43) }), undefined);
      assert.ok(tokens.verify({ id, secret }));
      await nextTurn();
    }
    const file = join(tokens.path, `${id}.json`);
    const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
    await writeFile(file, (await readFile(file, "utf8")).replace(sha256(secret), sha256(wrong)));
    assert.equal(tokens.verify({ id, secret }), undefined);
    assert.ok(tokens.verify({ id, secret: wrong }));
    assert.equal(tokens.verify({ id, secret }), undefined);
  });

  it("refuses every token where it cannot be read", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    await mkdir(join(dir.path, "auth"));
    await symlink(tokens.path, tokens.path);
    assert.throws(() => tokens.verify({ id: "abcd1234", secret: wrong }), { code: "ELOOP" });
    await assert.rejects(tokens.create({ label: "ci", scope: "all" }));
    await assert.rejects(tokens.list());
  });

  it("never leads out of its directory", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { id } = await tokens.create({ label: "ci", scope: "all" });
    for (const path of ["../tokens/" + id, "..%2f" + id, id.toUpperCase(), `${id}.json`, "", "a".repeat(33)]) {
      assert.equal(await tokens.revoke(path), false, path);
    }
    assert.equal((await tokens.list()).length, 1);
  });

  it("loses nothing when several processes create and revoke at once", async () => {
    await using dir = await tempDir();
    const script = `
      const { TokenStore } = await import(${JSON.stringify(store)});
      const tokens = new TokenStore(${JSON.stringify(dir.path)});
      for (let turn = 0; turn < 10; turn++) {
        const kept = await tokens.create({ label: "kept", scope: "all" });
        const gone = await tokens.create({ label: "gone", scope: "all" });
        await tokens.revoke(gone.id);
        console.log(kept.token + " " + gone.token);
      }
    `;
    const outputs = await Promise.all(Array.from({ length: 3 }, () => outputOf(script)));
    const pairs = outputs.flatMap((output) => output.trim().split("\n")).map((line) => line.split(" "));
    await using tokens = new TokenStore(dir.path);
    assert.equal(pairs.length, 30);
    for (const [kept = "", gone = ""] of pairs) {
      assert.ok(tokens.verify(presented(kept)));
      assert.equal(tokens.verify(presented(gone)), undefined);
    }
    assert.equal((await tokens.list()).length, 30);
  });
});

describe("time of use", { concurrency: true }, () => {
  it("is known at once where the token was used, and to others once written", async () => {
    await using dir = await tempDir();
    await using other = new TokenStore(dir.path);
    const { token, id } = await other.create({ label: "ci", scope: "all" });
    const before = new Date().toISOString();
    {
      await using used = new TokenStore(dir.path);
      const began = performance.now();
      used.verify(presented(token));
      const [shown] = await used.list();
      assert.ok((shown?.last_used_at ?? "") >= before);
      const [elsewhere] = await other.list();
      // It is written after a second, for which a busy machine may take to come here.
      if (performance.now() - began < 1000)
        assert.equal(elsewhere?.last_used_at, null, "nothing is written per request");
    }
    assert.ok(((await other.list())[0]?.last_used_at ?? "") >= before, "written at the end");
    await other.revoke(id);
    assert.deepEqual(await readdir(join(dir.path, "auth", "used")), []);
  });

  it("is written while the service runs, soon after the first use in a while", async () => {
    for (const options of [{ useIntervalMs: 5 }, {}]) {
      await using dir = await tempDir();
      await using used = new TokenStore(dir.path, options);
      await using other = new TokenStore(dir.path);
      const { token } = await used.create({ label: "ci", scope: "all" });
      used.verify(presented(token));
      await until("the time is written", async () => (await other.list())[0]?.last_used_at !== null);
    }
  });

  it("does not follow a wrong secret, and comes to no revoked token", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { id } = await tokens.create({ label: "ci", scope: "all" });
    tokens.verify({ id, secret: wrong });
    assert.equal((await tokens.list())[0]?.last_used_at, null);
    const { token, id: gone } = await tokens.create({ label: "ci", scope: "all" });
    {
      await using used = new TokenStore(dir.path);
      used.verify(presented(token));
      await tokens.revoke(gone);
    }
    assert.deepEqual(await readdir(join(dir.path, "auth", "used")), []);
  });

  it("never goes back", async () => {
    await using dir = await tempDir();
    await using tokens = new TokenStore(dir.path);
    const { token, id } = await tokens.create({ label: "ci", scope: "all" });
    const later = new Date(Date.now() + 60_000).toISOString();
    await mkdir(join(dir.path, "auth", "used"));
    await writeFile(join(dir.path, "auth", "used", id), later);
    {
      await using used = new TokenStore(dir.path);
      used.verify(presented(token));
    }
    assert.equal((await tokens.list())[0]?.last_used_at, later);
  });
});

async function outputOf(script: string): Promise<string> {
  const child = spawn(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", "--input-type=module", "-e", script],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => (code === 0 ? resolve(output) : reject(new Error(`it ended with ${code}`))));
  });
}
