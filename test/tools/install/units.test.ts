import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmod, mkdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { CommandError } from "../../../src/cli/client.ts";
import { layoutOf, type Layout } from "../../../src/tools/install/layout.ts";
import { compareUnits, unitsOf, writeUnits } from "../../../src/tools/install/units.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const isRoot = { isRoot: true, home: "/root", xdgConfigHome: undefined, xdgStateHome: undefined };

function layoutAt(places: Partial<typeof isRoot>): Layout {
  const layout = layoutOf({ ...isRoot, ...places });
  assert.ok(layout);
  return layout;
}

/** The texts of the units, by the last part of their names. */
async function texts(layout: Layout): Promise<Readonly<Record<string, string>>> {
  const units = await unitsOf(root, layout);
  return Object.fromEntries(units.map(({ path, text }) => [path.slice(layout.unitsDir.length + 1), text]));
}

describe("the units of an installation", () => {
  it("are the files of the release for root, with a standby that nothing enables", async () => {
    const units = await texts(layoutAt({}));
    for (const name of ["berth-operator.service", "berth-gateway.service"])
      assert.equal(units[name], await readFile(join(root, "manifests/systemd", name), "utf8"));
    const standby = units["berth-gateway-standby.service"] ?? "";
    assert.match(standby, /^ExecStart=\/usr\/lib\/berth\/current\/bin\/berth serve --standby$/m);
    assert.match(standby, /^User=berth$/m);
    assert.doesNotMatch(standby, /Install/);
    assert.match(standby, /^Restart=no\nRuntimeMaxSec=30min$/m);
    assert.doesNotMatch(standby, /^(Restart=always|RestartSec)/m);
  });

  it("are rendered by an earlier release too: their files keep the places and lines that it looks for", async () => {
    const [operator = "", gateway = ""] = await Promise.all(
      ["operator", "gateway"].map(
        async (name) => await readFile(join(root, `manifests/systemd/berth-${name}.service`), "utf8"),
      ),
    );
    for (const text of [operator, gateway]) {
      const directives = text
        .split("\n")
        .filter((line) => !line.startsWith("#"))
        .join("\n");
      const paths = directives.match(/\/[\w./-]*/g) ?? [];
      const known = /^\/(usr\/lib\/berth\/current\/bin\/berth|etc\/default\/berth|var\/lib\/berth|etc\/berth)$/;
      assert.deepEqual(
        paths.filter((path) => !known.test(path)),
        [],
      );
      assert.doesNotMatch(directives, /[$%{]/, "no other placeholder, and nothing that systemd replaces");
      assert.match(
        text,
        /^# .*\n\[Unit\]\nDescription=.*\nAfter=.*\n[^]*\n\[Install\]\nWantedBy=multi-user\.target\n$/,
      );
      assert.match(text, /^EnvironmentFile=-\/etc\/default\/berth$/m);
      assert.match(text, /^Restart=always\nRestartSec=1$/m);
    }
    assert.match(operator, /^ExecStart=\/usr\/lib\/berth\/current\/bin\/berth operator$/m);
    assert.match(gateway, /^ExecStart=\/usr\/lib\/berth\/current\/bin\/berth serve$/m);
    assert.match(gateway, /^After=.* berth-operator\.service$/m);
  });

  it("ask for nothing of a user's own manager that it cannot do", async () => {
    const layout = layoutAt({ isRoot: false, home: "/srv/ada" });
    assert.equal(
      (await texts(layout))["berth-gateway.service"],
      `[Unit]
Description=Berth gateway: one OpenAI-style API for the slots
After=berth-operator.service
StartLimitIntervalSec=0

[Service]
Type=exec
Environment=SVC_CONFIG_DIR=/srv/ada/.config/berth SVC_STATE_DIR=/srv/ada/.local/state/berth BERTH_LOG=text
EnvironmentFile=-/srv/ada/.config/berth.env
ExecStart=/srv/ada/.local/lib/berth/current/bin/berth serve
Restart=always
RestartSec=1
TimeoutStopSec=45
LimitNOFILE=65536

UMask=0027

NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
`,
    );
  });

  it("cannot name a place with a blank", async () => {
    const layout = layoutAt({ isRoot: false, home: "/srv/ada lovelace" });
    const { code, message } = await rejectionOf(unitsOf(root, layout), CommandError);
    assert.deepEqual(
      [code, message],
      [
        "install.place_unusable",
        "/srv/ada lovelace/.local/lib/berth/current cannot stand in a unit of systemd: it has a blank or another special character",
      ],
    );
  });

  const hasVerify = spawnSync("systemd-analyze", ["--version"]).status === 0;
  it("are what systemd understands", { skip: hasVerify ? false : "systemd-analyze is not here" }, async () => {
    await using directory = await tempDir();
    for (const isSystem of [true, false]) {
      const at = join(directory.path, isSystem ? "system" : "user");
      const layout = {
        ...layoutAt({ isRoot: isSystem, home: at }),
        unitsDir: join(at, "units"),
        current: join(at, "current"),
      };
      // It looks for the program, and does not run it.
      await mkdir(join(layout.current, "bin"), { recursive: true });
      await writeFile(join(layout.current, "bin/berth"), "#!/bin/sh\n");
      await chmod(join(layout.current, "bin/berth"), 0o755);
      const units = await unitsOf(root, layout);
      await writeUnits(units, {});
      const { status, stderr } = spawnSync(
        "systemd-analyze",
        [...(isSystem ? [] : ["--user"]), "verify", "--man=no", ...units.map(({ path }) => path)],
        { encoding: "utf8", env: { ...process.env, XDG_RUNTIME_DIR: at } },
      );
      const about = stderr.split("\n").filter((line) => line.includes("berth"));
      assert.deepEqual([status, about], [0, []], stderr);
    }
  });

  it("are written but for those that a person has edited", async () => {
    await using directory = await tempDir();
    const layout = { ...layoutAt({}), unitsDir: join(directory.path, "units") };
    const units = await unitsOf(root, layout);
    const [operator, gateway, standby] = units.map(({ path }) => path);
    assert.ok(operator !== undefined && gateway !== undefined && standby !== undefined);
    const first = await writeUnits(units, {});
    assert.deepEqual([first.written, first.kept], [[operator, gateway, standby], []]);
    await writeFile(gateway, "mine\n");
    // A release with other texts.
    const next = units.map(({ path, text }) => ({ path, text: `${text}# newer\n` }));
    const second = await writeUnits(next, first.hashes);
    assert.deepEqual([second.written, second.kept], [[operator, standby], [gateway]]);
    assert.equal(await readFile(gateway, "utf8"), "mine\n");
    assert.match(await readFile(`${gateway}.new`, "utf8"), /# newer\n$/);
    assert.deepEqual(await compareUnits(next, second.hashes), { written: [], kept: [gateway], hashes: second.hashes });
  });

  it("leave a unit alone that a person has masked", async () => {
    await using directory = await tempDir();
    const layout = { ...layoutAt({}), unitsDir: directory.path };
    const units = await unitsOf(root, layout);
    const { hashes } = await writeUnits(units, {});
    const path = units[1]?.path ?? "";
    await rm(path);
    await symlink("/dev/null", path);
    assert.deepEqual((await writeUnits(units, hashes)).kept, [path]);
    assert.equal(await readlink(path), "/dev/null");
  });

  it("leave a unit alone that was there before Berth", async () => {
    await using directory = await tempDir();
    const layout = { ...layoutAt({}), unitsDir: directory.path };
    const units = await unitsOf(root, layout);
    const path = units[0]?.path ?? "";
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, "an installation by hand\n");
    assert.deepEqual((await writeUnits(units, {})).kept, [path]);
  });
});
