import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { command } from "../../support/berth.ts";
import { runBerth, type Ended } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

const valid = '# mine\n[model]\ndefault = "tiny"\n';

interface Site extends AsyncDisposable {
  readonly path: string;
  readonly file: string;
  /** `berth config edit` with an editor that runs this shell script; `$1` is the file. */
  edit(what: string, script: string): Promise<Ended>;
}

async function site(): Promise<Site> {
  const directory = await tempDir();
  const { path } = directory;
  const config = join(path, "config");
  await mkdir(join(config, "slots"), { recursive: true });
  const file = join(config, "slots/primary.toml");
  await writeFile(file, valid);
  return {
    path,
    file,
    async edit(what, script) {
      const editor = join(path, "editor");
      await writeFile(editor, `#!/bin/sh\nFILE=${file}\n${script}\n`);
      await chmod(editor, 0o755);
      const ended = await runBerth(["config", "edit", what], {
        SVC_CONFIG_DIR: config,
        EDITOR: editor,
        TMPDIR: path,
      });
      const anonymous = (text: string): string =>
        text.replaceAll(path, "DIR").replaceAll(/DIR\/berth-edit-\w+/g, "EDIT");
      return { ...ended, stdout: anonymous(ended.stdout), stderr: anonymous(ended.stderr) };
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

describe("berth config edit", () => {
  it("saves a valid text, byte for byte, with the rights of the file", async () => {
    await using here = await site();
    await chmod(here.file, 0o640);
    assert.deepEqual(
      await here.edit("primary", 'echo "load = \\"onDemand\\"" | cat - "$1" >"$1.new" && mv "$1.new" "$1"'),
      {
        code: 0,
        stdout: "saved DIR/config/slots/primary.toml\n",
        stderr: "",
      },
    );
    assert.equal(await readFile(here.file, "utf8"), `load = "onDemand"\n${valid}`);
    assert.equal((await stat(here.file)).mode & 0o777, 0o640);
  });

  it("saves no invalid text, and keeps it in a file", async () => {
    await using here = await site();
    const ended = await here.edit("slots/primary.toml", 'echo "enabld = true" >"$1"');
    assert.deepEqual(ended, {
      code: 1,
      stdout: "",
      stderr: `DIR/config/slots/primary.toml:1:1: enabld: unknown key; did you mean enabled?
config.invalid: DIR/config/slots/primary.toml is as it was
your text is kept in EDIT/primary.toml
`,
    });
    assert.equal(await readFile(here.file, "utf8"), valid);
  });

  it("refuses what would break another file", async () => {
    await using here = await site();
    await writeFile(join(here.path, "config/slots/zeta.toml"), `aliases = ["coder"]\n${valid}`);
    const { code, stderr } = await here.edit("coder", `printf '[model]\\ndefault = "tiny"\\n' >"$1"`);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^DIR\/config\/slots\/zeta\.toml:1:12: aliases: coder is the name of the slot at slots\/coder\.toml:1:1\nconfig\.invalid: /,
    );
  });

  it("makes a new file", async () => {
    await using here = await site();
    const { stdout } = await here.edit("berth.toml", 'echo "port = 9000" >"$1"');
    assert.equal(stdout, "saved DIR/config/berth.toml; it counts from the next start\n");
    assert.equal(await readFile(join(here.path, "config/berth.toml"), "utf8"), "port = 9000\n");
  });

  it("checks settings, too", async () => {
    await using here = await site();
    const { code, stderr } = await here.edit("berth.toml", 'echo "prot = 9000" >"$1"');
    assert.equal(code, 1);
    assert.match(stderr, /^DIR\/config\/berth\.toml:1:1: prot: is not a setting; did you mean port\?\n/);
  });

  it("says that nothing changed", async () => {
    await using here = await site();
    const { code, stdout } = await here.edit("primary", "true");
    assert.deepEqual([code, stdout], [0, "DIR/config/slots/primary.toml: nothing changed\n"]);
  });

  it("does not overwrite a file that was saved meanwhile", async () => {
    await using here = await site();
    const { code, stderr } = await here.edit("primary", 'echo "# theirs" >>"$FILE"; echo "# mine" >>"$1"');
    assert.equal(code, 1);
    assert.equal(
      stderr,
      "config.changed: DIR/config/slots/primary.toml was changed while it was edited\nyour text is kept in EDIT/primary.toml\n",
    );
    assert.equal(await readFile(here.file, "utf8"), `${valid}# theirs\n`);
  });

  it("replaces the target of a link", async () => {
    await using here = await site();
    const target = join(here.path, "elsewhere.toml");
    await writeFile(target, valid);
    const link = join(here.path, "config/slots/linked.toml");
    await symlink(target, link);
    assert.equal((await here.edit("linked", 'echo "# more" >>"$1"')).code, 0);
    assert.equal(await readlink(link), target);
    assert.equal(await readFile(target, "utf8"), `${valid}# more\n`);
  });

  it("saves nothing when the editor fails", async () => {
    await using here = await site();
    const half = await here.edit("primary", 'echo "# half" >>"$1"; exit 3');
    assert.equal(half.code, 1);
    assert.equal(
      half.stderr,
      "editor.failed: DIR/editor ended with 3; nothing is saved\nyour text is kept in EDIT/primary.toml\n",
    );
    assert.equal(await readFile(here.file, "utf8"), valid);
  });

  it("goes on after a Ctrl-C, which is the editor's", async () => {
    await using here = await site();
    const editor = join(here.path, "editor");
    await writeFile(editor, `#!/bin/sh\ntrap '' INT\nkill -INT 0\necho "# more" >>"$1"\n`);
    await chmod(editor, 0o755);
    const env = {
      PATH: process.env["PATH"],
      SVC_CONFIG_DIR: join(here.path, "config"),
      EDITOR: editor,
      TMPDIR: here.path,
    };
    // In a process group of its own, as a terminal's foreground has one.
    const child = spawn(command, ["config", "edit", "primary"], {
      env: { ...env, SVC_OPERATOR_PORT: "0" },
      detached: true,
      stdio: "ignore",
    });
    const [code, signal]: readonly unknown[] = await once(child, "exit");
    assert.deepEqual([code, signal], [0, null]);
    assert.equal(await readFile(here.file, "utf8"), `${valid}# more\n`);
  });

  it("leaves no copy of an unchanged text", async () => {
    await using here = await site();
    const { code, stderr } = await here.edit("primary", "exit 127");
    assert.equal(code, 1);
    assert.equal(
      stderr,
      "editor.failed: DIR/editor ended with 127; nothing is saved\nset EDITOR to an editor that is installed\n",
    );
    assert.deepEqual((await readdir(here.path)).toSorted(), ["config", "editor"]);
  });

  it("edits files of the configuration only", async () => {
    await using here = await site();
    for (const what of [
      "../outside.toml",
      "../../escape",
      "a/b",
      "",
      "/etc/passwd.toml",
      "slots/a/b.toml",
      "other/a.toml",
      "slots/a.txt",
    ]) {
      const { code, stderr } = await here.edit(what, "exit 9");
      assert.equal(code, 1, what);
      assert.match(stderr, /^config\.no_such_file: .* is no file of the configuration in DIR\/config\nname a slot, /);
    }
  });
});
