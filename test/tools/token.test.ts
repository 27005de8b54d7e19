import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TokenStore } from "../../src/store/auth/tokens.ts";
import { answered, listOf, refused, told } from "../cli/fixture.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const times = { created_at: "2026-01-02T03:04:05.000Z", last_used_at: null };
const view = { id: "abcd1234", label: "laptop", scope: "all", is_confirmed: true, ...times };

describe("berth token", () => {
  it("makes the first token where nothing runs, prints it alone, lists and revokes it", async () => {
    await using dir = await tempDir();
    const berth = (...words: string[]) =>
      runBerth(["token", ...words], { SVC_STATE_DIR: dir.path, SVC_CONFIG_DIR: dir.path });
    const created = await berth("create", "--label", "laptop", "--scope", "all");
    assert.match(created.stdout, /^svc_[a-z0-9]{8}\.[A-Za-z0-9_-]{43}\n$/);
    const id = created.stdout.slice(4, 12);
    const once = "This token is shown once and cannot be shown again: keep it now.";
    assert.equal(created.stderr, `token ${id} (laptop, all). ${once}\n`);
    await using store = new TokenStore(dir.path);
    const [stored] = await store.list();
    assert.equal(
      (await berth("list")).stdout,
      `ID        LABEL   SCOPE  CREATED                   LAST USED\n${id}  laptop  all    ${stored?.created_at}  never\n`,
    );
    const revoked = { code: 0, stdout: `revoked ${id}: its next request is refused\n`, stderr: "" };
    assert.deepEqual(await berth("revoke", id), revoked);
    const stderr = `system.not_found: no token has the id "${id}"\nsee \`berth token list\`\n`;
    assert.deepEqual(await berth("revoke", id), { code: 1, stdout: "", stderr });
  });

  const token = `svc_abcd1234.${"s".repeat(43)}`;
  const made = JSON.stringify({ ...view, token, warning: "Keep it." });
  const unknown = refused(404, "system.not_found", "no such token");
  for (const [line, path, answer, code, said] of [
    ["list -o name", "", listOf(view), 0, /^abcd1234\n$/],
    ["revoke abcd1234", "/abcd1234", answered(204, ""), 0, /^revoked abcd1234/],
    ["revoke zzzz", "/zzzz", unknown, 1, /^system\.not_found: no token has the id "zzzz"/],
    ["create --label a --scope all -o json", "", answered(201, made), 0, /"token": "svc_abcd1234\.s+"/],
    [
      "list",
      "",
      refused(401, "auth.required", "a token is needed"),
      1,
      /^auth\.required: .*\nrun `berth login`.*leave out --server and unset SVC_URL/,
    ],
  ] as const)
    it(`asks the service that is named: ${line}, ${code}`, async () => {
      const ended = await told({ [`/api/auth/tokens${path}`]: answer }, `token ${line}`);
      assert.equal(ended.code, code);
      assert.match(`${ended.stdout}${ended.stderr}`, said);
      if (line.startsWith("create")) assert.deepEqual(ended.bodies, ['{"label":"a","scope":"all"}']);
    });

  for (const [words, said] of [
    [
      ["--label", "two\nlines", "--scope", "all"],
      /^usage: --label: 1 to 100 visible characters\nsee `berth token create --help`\n$/,
    ],
    [["--label", "a", "--scope", "root"], /Allowed choices are admin, all, v1-only, read-only/],
    // No scope is ever assumed.
    [["--label", "a"], /'--scope <scope>' not specified/],
  ] as const)
    it(`create is used wrongly: ${JSON.stringify(words)}`, async () => {
      const { code, stdout, stderr } = await runBerth(["token", "create", ...words]);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, said);
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
