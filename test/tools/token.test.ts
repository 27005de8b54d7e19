import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TokenStore } from "../../src/store/auth/tokens.ts";
import { apiDouble, failure } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const view = {
  id: "abcd1234",
  label: "laptop",
  scope: "all",
  created_at: "2026-01-02T03:04:05.000Z",
  last_used_at: null,
  is_confirmed: true,
};

describe("berth token", { concurrency: 2 }, () => {
  it("makes the first token where nothing runs, prints it alone, lists and revokes it", async () => {
    await using dir = await tempDir();
    const env = { SVC_STATE_DIR: dir.path, SVC_CONFIG_DIR: dir.path };
    const created = await runBerth(["token", "create", "--label", "laptop", "--scope", "all"], env);
    assert.match(created.stdout, /^svc_[a-z0-9]{8}\.[A-Za-z0-9_-]{43}\n$/);
    const id = created.stdout.slice(4, 12);
    assert.equal(
      created.stderr,
      `token ${id} (laptop, all). This token is shown once and cannot be shown again: keep it now.\n`,
    );
    await using store = new TokenStore(dir.path);
    const [stored] = await store.list();
    const listed = await runBerth(["token", "list"], env);
    assert.equal(
      listed.stdout,
      `ID        LABEL   SCOPE  CREATED                   LAST USED\n${id}  laptop  all    ${stored?.created_at}  never\n`,
    );
    assert.deepEqual(await runBerth(["token", "revoke", id], env), {
      code: 0,
      stdout: `revoked ${id}: its next request is refused\n`,
      stderr: "",
    });
    assert.deepEqual(await runBerth(["token", "revoke", id], env), {
      code: 1,
      stdout: "",
      stderr: `system.not_found: no token has the id "${id}"\nsee \`berth token list\`\n`,
    });
  });

  it("asks the service that is named", async () => {
    const token = `svc_abcd1234.${"s".repeat(43)}`;
    await using api = await apiDouble({
      "/api/auth/tokens": { object: "list", data: [view] },
      "/api/auth/tokens/abcd1234": (response) => response.writeHead(204).end(),
      "/api/auth/tokens/zzzz": (response) =>
        response.writeHead(404).end(JSON.stringify(failure("system.not_found", "no such token"))),
    });
    const env = { SVC_URL: api.url, SVC_TOKEN: "svc_admin234.x" };
    assert.equal((await runBerth(["token", "list", "-o", "name"], env)).stdout, "abcd1234\n");
    assert.equal((await runBerth(["token", "revoke", "abcd1234"], env)).code, 0);
    assert.match((await runBerth(["token", "revoke", "zzzz"], env)).stderr, /^system\.not_found: no token has the id/);
    api.answer("/api/auth/tokens", (response) =>
      response.writeHead(201).end(JSON.stringify({ ...view, token, warning: "Keep it." })),
    );
    const created = await runBerth(["token", "create", "--label", "laptop", "--scope", "all", "-o", "json"], env);
    assert.deepEqual(JSON.parse(created.stdout), { ...view, token, warning: "Keep it." });
    assert.equal(api.bodies.at(-1), '{"label":"laptop","scope":"all"}');
    assert.equal(api.authorizations.at(-1), "Bearer svc_admin234.x");
  });

  it("says how to do without the service that is named", async () => {
    await using api = await apiDouble({
      "/api/auth/tokens": (response) =>
        response.writeHead(401).end(JSON.stringify(failure("auth.required", "a token is needed"))),
    });
    const failed = await runBerth(["token", "list"], { SVC_URL: api.url });
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /^auth\.required: .*\nrun `berth login`.*leave out --server and unset SVC_URL/);
  });

  it("reports an invalid label and an invalid scope", async () => {
    const label = await runBerth(["token", "create", "--label", "two\nlines", "--scope", "all"]);
    assert.deepEqual(label, {
      code: 2,
      stdout: "",
      stderr: "usage: --label: 1 to 100 visible characters\nsee `berth token create --help`\n",
    });
    const scope = await runBerth(["token", "create", "--label", "a", "--scope", "root"]);
    assert.equal(scope.code, 2);
    assert.match(scope.stderr, /Allowed choices are admin, all, v1-only, read-only/);
    assert.equal((await runBerth(["token", "create", "--label", "a"])).code, 2, "no scope is ever assumed");
  });

  it("reports a store that cannot be used", async () => {
    await using dir = await tempDir();
    await mkdir(join(dir.path, "auth"));
    await writeFile(join(dir.path, "auth", "tokens"), "");
    const env = { SVC_STATE_DIR: dir.path, SVC_CONFIG_DIR: dir.path };
    const failed = await runBerth(["token", "create", "--label", "a", "--scope", "all"], env);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /^token\.unavailable: .*auth\/tokens/);
  });
});
