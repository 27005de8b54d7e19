import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, readdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { command } from "../../support/berth.ts";
import type { Ended } from "../../support/command.ts";
import { configSite, type ConfigSite } from "./site.ts";

const valid = '# mine\n[model]\ndefault = "tiny"\n';

const slotOf = ({ configDir }: ConfigSite): string => join(configDir, "slots/primary.toml");
const textOf = (site: ConfigSite): Promise<string> => readFile(slotOf(site), "utf8");

/** An editor that runs this shell script: `$1` is its file, FILE that of the slot `primary`. */
async function editorOf(site: ConfigSite, script: string): Promise<{ EDITOR: string; TMPDIR: string }> {
  const editor = join(site.path, "editor");
  await writeFile(editor, `#!/bin/sh\nFILE=${slotOf(site)}\n${script}\n`);
  await chmod(editor, 0o755);
  return { EDITOR: editor, TMPDIR: site.path };
}

async function edit(site: ConfigSite, what: string, script: string): Promise<Ended> {
  const ended = await site.config(`edit ${what}`, await editorOf(site, script));
  return { ...ended, stderr: ended.stderr.replaceAll(/DIR\/berth-edit-\w+/g, "EDIT") };
}

const site = (): Promise<ConfigSite> => configSite({ "slots/primary.toml": valid });
const append = (line: string): string => `echo '${line}' >>"$1"`;

describe("berth config edit", () => {
  for (const [what, named, script, ended, text] of [
    [
      "saves no invalid text, and keeps it in a file",
      "slots/primary.toml",
      'echo "enabld = true" >"$1"',
      {
        code: 1,
        stdout: "",
        stderr: `DIR/config/slots/primary.toml:1:1: enabld: unknown key; did you mean enabled?
config.invalid: DIR/config/slots/primary.toml is as it was
your text is kept in EDIT/primary.toml
`,
      },
      valid,
    ],
    [
      "says that nothing changed",
      "primary",
      "true",
      { code: 0, stdout: "DIR/config/slots/primary.toml: nothing changed\n", stderr: "" },
      valid,
    ],
    [
      "does not overwrite a file that was saved meanwhile",
      "primary",
      `echo "# theirs" >>"$FILE"; ${append("# mine")}`,
      {
        code: 1,
        stdout: "",
        stderr:
          "config.changed: DIR/config/slots/primary.toml was changed while it was edited\nyour text is kept in EDIT/primary.toml\n",
      },
      `${valid}# theirs\n`,
    ],
    [
      "saves nothing when the editor fails",
      "primary",
      `${append("# half")}; exit 3`,
      {
        code: 1,
        stdout: "",
        stderr: "editor.failed: DIR/editor ended with 3; nothing is saved\nyour text is kept in EDIT/primary.toml\n",
      },
      valid,
    ],
  ] as const)
    it(what, async () => {
      await using here = await site();
      assert.deepEqual(await edit(here, named, script), ended);
      assert.equal(await textOf(here), text);
    });

  it("saves a valid text, byte for byte, with the rights of the file", async () => {
    await using here = await site();
    await chmod(slotOf(here), 0o640);
    const ended = await edit(here, "primary", `sed '1i load = "onDemand"' "$1" >"$1.new" && mv "$1.new" "$1"`);
    assert.deepEqual(ended, { code: 0, stdout: "saved DIR/config/slots/primary.toml\n", stderr: "" });
    assert.equal(await textOf(here), `load = "onDemand"\n${valid}`);
    assert.equal((await stat(slotOf(here))).mode & 0o777, 0o640);
  });

  it("refuses what would break another file", async () => {
    await using here = await site();
    await here.put("slots/zeta.toml", `aliases = ["coder"]\n${valid}`);
    const { code, stderr } = await edit(here, "coder", `printf '[model]\\ndefault = "tiny"\\n' >"$1"`);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^DIR\/config\/slots\/zeta\.toml:1:12: aliases: coder is the name of the slot at slots\/coder\.toml:1:1\nconfig\.invalid: /,
    );
  });

  it("makes a new file, and checks settings, too", async () => {
    await using here = await site();
    const { stdout } = await edit(here, "berth.toml", append("port = 9000"));
    assert.equal(stdout, "saved DIR/config/berth.toml; it counts from the next start\n");
    assert.equal(await readFile(join(here.configDir, "berth.toml"), "utf8"), "port = 9000\n");
    const wrong = await edit(here, "berth.toml", 'echo "prot = 9000" >"$1"');
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /^DIR\/config\/berth\.toml:1:1: prot: is not a setting; did you mean port\?\n/);
  });

  it("replaces the target of a link", async () => {
    await using here = await site();
    const target = join(here.path, "elsewhere.toml");
    await writeFile(target, valid);
    const link = join(here.configDir, "slots/linked.toml");
    await symlink(target, link);
    assert.equal((await edit(here, "linked", append("# more"))).code, 0);
    assert.equal(await readlink(link), target);
    assert.equal(await readFile(target, "utf8"), `${valid}# more\n`);
  });

  it("goes on after a Ctrl-C, which is the editor's", async () => {
    await using here = await site();
    const editor = await editorOf(here, `trap '' INT\nkill -INT 0\n${append("# more")}`);
    // In a process group of its own, as a terminal's foreground has one.
    const child = spawn(command, ["config", "edit", "primary"], {
      env: { PATH: process.env["PATH"], SVC_CONFIG_DIR: here.configDir, SVC_OPERATOR_PORT: "0", ...editor },
      detached: true,
      stdio: "ignore",
    });
    assert.deepEqual(await once(child, "exit"), [0, null]);
    assert.equal(await textOf(here), `${valid}# more\n`);
  });

  it("leaves no copy of an unchanged text", async () => {
    await using here = await site();
    const { code, stderr } = await edit(here, "primary", "exit 127");
    assert.equal(code, 1);
    assert.equal(
      stderr,
      "editor.failed: DIR/editor ended with 127; nothing is saved\nset EDITOR to an editor that is installed\n",
    );
    assert.deepEqual((await readdir(here.path)).toSorted(), ["config", "editor"]);
  });

  it("edits files of the configuration only", async () => {
    await using here = await site();
    const outside = ["../outside.toml", "../../escape", "a/b", "/etc/passwd.toml", "slots/a/b.toml", "other/a.toml"];
    for (const what of [...outside, "slots/a.txt", ""]) {
      const { code, stderr } = await edit(here, what, "exit 9");
      assert.equal(code, 1, what);
      assert.match(stderr, /^config\.no_such_file: .* is no file of the configuration in DIR\/config\nname a slot, /);
    }
  });
});
