import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmod, chown, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { bootId } from "../../../src/lib/boot-id.ts";
import { CommandError } from "../../../src/cli/client.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { machine } from "./machine.ts";

type Machine = Awaited<ReturnType<typeof machine>>;

/** Every path below, apart from the unpacked release. */
async function everything(at: Machine): Promise<string[]> {
  const entries = await readdir(at.path, { recursive: true });
  return entries.filter((name) => !name.startsWith("unpacked")).toSorted();
}

const edge = {
  SVC_AUTH_ENABLED: "1",
  SVC_HOSTNAME: "ai.local",
  SVC_ADMIN_USER: "ada",
  SVC_ADMIN_PASSWORD: "horse battery staple",
};

describe("berth uninstall of an installation", () => {
  it("leaves nothing but what it names", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    await writeFile(at.at("given.gguf"), "GGUF");
    const before = await everything(at);
    await at.install({ env: edge, model: at.at("given.gguf") });
    await writeFile(join(at.layout.stateDir, "instance"), "i");
    await mkdir(at.at(".local/share/berth"), { recursive: true });
    await writeFile(at.at(".local/share/berth/credentials.json"), "{}");
    const list = await at.uninstall({ isConfirmed: false });
    for (const line of [
      "would stop every engine of this instance",
      "would stop and disable the services",
      "would remove the user berth",
      "would remove DIR/etc/Caddyfile",
      "would remove DIR/.local/share/berth/credentials.json (2 B)",
      "would remove DIR/etc/systemd/berth-operator.service (1.7 KiB)",
      "would remove DIR/etc/default/berth (",
      "would remove DIR/lib/berth (",
      "would leave DIR/var/berth/models (4 B): models, and any other files there; --models removes them",
      "would leave DIR/etc/berth: your manifests; --config removes them",
      "would leave the unpacked release: rm -r DIR/unpacked/berth-0.1.0",
      "nothing has been done; --yes does it",
    ])
      assert.ok(list.includes(line), `${line}\n\n${list}`);
    at.called.length = 0;
    await at.uninstall();
    assert.deepEqual(at.called, [
      "stop berth-gateway-standby",
      "stop berth-gateway",
      "disable berth-gateway",
      "stop berth-operator",
      "disable berth-operator",
      "reload",
      "systemctl stop caddy.service",
      "userdel berth",
      "groupdel berth",
    ]);
    assert.deepEqual(
      (await everything(at)).filter((name) => !before.includes(name)),
      [
        ".local",
        ".local/share",
        "etc/berth",
        "etc/berth/slots",
        "etc/berth/slots/primary.toml",
        "var",
        "var/berth",
        "var/berth/models",
        "var/berth/models/given.gguf",
      ],
    );
  });

  it("takes models and manifests too where it is asked to, and everything that was made", async () => {
    await using at = await machine();
    await writeFile(at.at("given.gguf"), "GGUF");
    const before = await everything(at);
    await at.install({ model: at.at("given.gguf") });
    await at.uninstall({ removesModels: true, removesConfig: true });
    assert.deepEqual(await everything(at), before);
  });

  it("leaves settings and tokens with --keep-data, which the next installation takes up", async () => {
    await using at = await machine();
    await at.install({ env: { SVC_AUTH_ENABLED: "1" }, hasEdge: false });
    const settings = await readFile(at.layout.environmentFile, "utf8");
    assert.match(await at.uninstall({ keepsData: true }), /^left DIR\/etc\/default\/berth: settings and secrets$/m);
    assert.equal(await readFile(at.layout.environmentFile, "utf8"), settings);
    assert.ok(!(await at.install({ hasEdge: false })).includes("svc_"));
  });

  it("puts the Caddyfile back, and leaves one that was edited since", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    const file = at.at("etc/Caddyfile");
    await at.install({ env: edge });
    await writeFile(`${file}.before-berth`, "debian's\n");
    await at.uninstall();
    assert.equal(await readFile(file, "utf8"), "debian's\n");
    await using other = await machine();
    other.programs.add("caddy");
    await other.install({ env: edge });
    await writeFile(other.at("etc/Caddyfile"), "mine\n");
    assert.match(await other.uninstall(), /^left DIR\/etc\/Caddyfile: it was edited by a person$/m);
    assert.equal(await readFile(other.at("etc/Caddyfile"), "utf8"), "mine\n");
  });

  it("leaves the user that was there before, and says which changes of units stay", async () => {
    await using at = await machine();
    at.accounts.set("berth", {
      name: "berth",
      uid: process.getuid?.() ?? 0,
      gid: process.getgid?.() ?? 0,
      home: at.layout.stateDir,
    });
    await at.install();
    await mkdir(join(at.layout.unitsDir, "berth-operator.service.d"));
    await writeFile(join(at.layout.unitsDir, "berth-gateway.service"), "mine\n");
    await writeFile(join(at.layout.unitsDir, "berth-gateway.service.new"), "new\n");
    const said = await at.uninstall();
    assert.match(said, /^left DIR\/etc\/systemd\/berth-operator\.service\.d: your changes of the unit$/m);
    assert.match(said, /^left DIR\/etc\/systemd\/berth-gateway\.service: it was edited by a person$/m);
    assert.equal(await readFile(join(at.layout.unitsDir, "berth-gateway.service"), "utf8"), "mine\n");
    assert.ok(at.accounts.has("berth"));
    assert.ok(!at.called.some((line) => line.startsWith("userdel")));
    assert.deepEqual((await readdir(at.layout.unitsDir)).toSorted(), [
      "berth-gateway.service",
      "berth-operator.service.d",
    ]);
  });

  it("removes units that a killed installation has written before its record", async () => {
    await using at = await machine();
    await at.install();
    await writeFile(
      at.layout.record,
      JSON.stringify({ ...JSON.parse(await readFile(at.layout.record, "utf8")), units: {} }),
    );
    await at.uninstall();
    assert.deepEqual(await readdir(at.layout.unitsDir).catch(() => []), []);
  });

  it(
    "gives root what stays once no process of the user is left, and the next installation gives it back",
    { skip: process.getuid?.() === 0 ? false : "only root gives files away" },
    async () => {
      await using at = await machine();
      const [service, ada] = [61_234, 61_235];
      at.setServiceUid(service);
      await chmod(at.path, 0o755);
      await writeFile(at.at("given.gguf"), "GGUF", { mode: 0o644 });
      await chown(at.at("given.gguf"), ada, ada);
      await at.install({ model: at.at("given.gguf") });
      const owners = async () =>
        await Promise.all(
          [
            at.layout.configDir,
            join(at.layout.configDir, "slots/primary.toml"),
            at.layout.stateDir,
            join(at.layout.stateDir, "models/given.gguf"),
            at.layout.environmentFile,
          ].map(async (path) => await stat(path).then(({ uid, gid }) => [uid, gid].join(":"))),
        );
      const [own, adas, root] = [`${service}:${service}`, `${ada}:${ada}`, "0:0"];
      assert.deepEqual(await owners(), [own, own, own, adas, `0:${service}`]);
      const ended: string[] = [];
      const host = {
        ...at.host,
        run: async (program: string, args: readonly string[]) => {
          if (program === "userdel") ended.push(...(await owners()));
          return await at.host.run(program, args);
        },
      };
      const record = JSON.parse(await readFile(at.layout.record, "utf8"));
      const installation = { layout: at.layout, record, services: at.services, host };
      await at.uninstall({ keepsData: true, installation });
      assert.deepEqual(ended, [own, own, own, adas, `0:${service}`], "nothing is given away before");
      assert.deepEqual(await owners(), [root, root, root, adas, root]);
      await at.install();
      assert.deepEqual(await owners(), [own, own, own, adas, `0:${service}`]);
      // A directory that a person gives to root stays root's.
      spawnSync("chown", ["-R", "0:0", at.layout.configDir]);
      await at.install();
      assert.equal((await stat(at.layout.configDir)).uid, 0);
    },
  );

  it("completes a removal that was killed", async () => {
    await using at = await machine();
    const before = await everything(at);
    await at.install();
    // As a kill after the units, and in the middle of the program, leaves it.
    await at.services.stop("berth-gateway");
    await at.services.stop("berth-operator");
    for (const path of [
      at.layout.environmentFile,
      join(at.layout.unitsDir, "berth-operator.service"),
      join(at.layout.prefix, "0.1.0/bin"),
    ])
      await rm(path, { recursive: true });
    at.accounts.delete("berth");
    await at.uninstall();
    assert.deepEqual(
      (await everything(at)).filter((name) => !before.includes(name)),
      // The service manager has no unit any more whose links it could remove.
      ["etc/systemd", "etc/systemd/multi-user.target.wants"],
    );
  });

  it("refuses at once where a gateway runs that no service manager can stop", async () => {
    await using at = await machine({ kind: "none" });
    await at.install();
    const demand = {
      schema: 1,
      gateway: "g",
      pid: 1,
      bootId: bootId(),
      heartbeat: new Date().toISOString(),
      incarnation: "g",
      beat: 1,
      slots: {},
    };
    await mkdir(join(at.layout.stateDir, "demand"));
    await writeFile(join(at.layout.stateDir, "demand/g.json"), JSON.stringify(demand));
    const began = performance.now();
    assert.equal((await rejectionOf(at.uninstall(), CommandError)).code, "gateway.running");
    assert.ok(performance.now() - began < 5000);
    assert.ok((await everything(at)).includes("lib/berth/current"));
  });

  it("says what keeps the user, and completes once that has ended", async () => {
    await using at = await machine();
    await at.install();
    const failing = {
      ...at.host,
      run: async () =>
        await Promise.reject(new Error("userdel ended with 8: user berth is currently used by process 7")),
    };
    const record = JSON.parse(await readFile(at.layout.record, "utf8"));
    const installation = { layout: at.layout, record, services: at.services, host: failing };
    const { message, next } = await rejectionOf(at.uninstall({ installation }), CommandError);
    assert.equal(
      message,
      "the user cannot be removed: userdel ended with 8: user berth is currently used by process 7",
    );
    assert.match(next ?? "", /ps -u berth/);
    assert.match(await at.uninstall(), /removed the user berth\n[^]*removed DIR\/lib\/berth\n$/);
  });

  it("leaves a command of the same name that is another program's", async () => {
    await using at = await machine();
    await at.install();
    await rm(at.layout.command);
    await symlink("/opt/berth/bin/berth", at.layout.command);
    assert.ok(!(await at.uninstall()).includes("DIR/bin/berth"));
    assert.deepEqual(await readdir(at.at("bin")), ["berth"]);
  });
});
