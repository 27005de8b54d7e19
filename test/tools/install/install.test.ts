import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmod, chown, mkdir, readdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { describe, it } from "node:test";
import { CommandError } from "../../../src/cli/client.ts";
import { SettingsError } from "../../../src/program/settings.ts";
import { acquireLock } from "../../../src/store/state/lock.ts";
import { readRecord } from "../../../src/tools/install/installed-record.ts";
import { listen } from "../../support/listen.ts";
import { noOtherUser, otherUser } from "../../support/other-user.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { endOf, runBerth } from "../../support/command.ts";
import { until } from "../../support/until.ts";
import { machine } from "./machine.ts";

const isThere = async (path: string): Promise<boolean> =>
  await stat(path).then(
    () => true,
    () => false,
  );

type Machine = Awaited<ReturnType<typeof machine>>;

/** `code: message`, then the remedy. */
async function refusal(at: Machine, options: Parameters<Machine["install"]>[0] = {}): Promise<string> {
  const { code, message, next } = await rejectionOf(at.install(options), CommandError);
  return `${code}: ${message}\n${next ?? ""}`.replaceAll(at.path, "DIR");
}

/** Asserts that a refused installation has changed nothing. */
async function assertUntouched(at: Machine): Promise<void> {
  assert.deepEqual(at.called, []);
  for (const place of [at.layout.prefix, at.layout.unitsDir, at.layout.environmentFile])
    assert.equal(await isThere(place), false, place);
}

/** A terminal at which a person answers each prompt by the line beside it. */
function terminal(answers: Readonly<Record<string, string>>) {
  const input = Object.assign(new PassThrough(), { isTTY: true });
  let shown = "";
  let last = "";
  const screen = Object.assign(
    new Writable({
      write(chunk, _encoding, next) {
        shown += String(chunk);
        last += String(chunk);
        const answer = Object.entries(answers).find(([prompt]) => last.endsWith(`${prompt} `));
        if (answer !== undefined) {
          last = "";
          setImmediate(() => input.write(`${answer[1]}\n`));
        }
        next();
      },
    }),
    { isTTY: true },
  );
  return { input: () => input, screen, shown: () => shown };
}

const edge = {
  SVC_AUTH_ENABLED: "1",
  SVC_HOSTNAME: "ai.local",
  SVC_ADMIN_USER: "ada",
  SVC_ADMIN_PASSWORD: "horse battery staple",
};

describe("berth install", () => {
  it("prints its steps, and does nothing without --yes and a terminal", async () => {
    await using at = await machine();
    assert.equal(
      await at.install({ isConfirmed: false }),
      `Berth 0.1.0 will:
  make the user berth, as which the services run
  make DIR/etc/berth, for manifests
  make DIR/var/berth, for state and models
  copy the program to DIR/lib/berth/0.1.0
  have DIR/lib/berth/current lead to 0.1.0
  make the command DIR/bin/berth
  make DIR/etc/default/berth: SVC_HOST, SVC_PORT, SVC_OPERATOR_PORT, SVC_CHAT_PORT, SVC_RUNTIME
  write DIR/etc/systemd/berth-operator.service, DIR/etc/systemd/berth-gateway.service, DIR/etc/systemd/berth-gateway-standby.service
  start berth-operator and berth-gateway, and enable them
  wait until they are ready
  skip the pages' setup, since this has done it
nothing has been done; --yes does it
`,
    );
    await assertUntouched(at);
  });

  it("installs, and finds all as it should be the second time", async () => {
    await using at = await machine();
    const text = await at.install();
    assert.match(
      text,
      /Berth 0\.1\.0 is installed and runs\.\n {2}dashboard {2}http:\/\/127\.0\.0\.1:SVC_PORT\/\n {2}chat {7}\S+\/chat\/\n {2}API {8}\S+\/v1\n/,
    );
    const { layout } = at;
    assert.equal(await readlink(layout.current), "0.1.0");
    assert.equal(await readlink(layout.command), join(layout.current, "bin/berth"));
    assert.match(await readFile(layout.environmentFile, "utf8"), /^SVC_HOST=127\.0\.0\.1\nSVC_PORT=\d+$/m);
    assert.equal((await stat(layout.environmentFile)).mode & 0o777, 0o640);
    assert.equal((await stat(layout.stateDir)).mode & 0o777, 0o750);
    assert.deepEqual((await readdir(layout.prefix)).toSorted(), ["0.1.0", "current", "installed.json"]);
    assert.deepEqual(at.called, [
      `useradd --system --user-group --home-dir ${layout.stateDir} --shell /usr/sbin/nologin berth`,
      "reload",
      "enable berth-operator",
      "start berth-operator",
      "enable berth-gateway",
      "start berth-gateway",
    ]);
    const record = await readRecord(layout);
    assert.deepEqual([record?.version, record?.made.user, record?.made.group], ["0.1.0", true, true]);
    assert.deepEqual(await at.install(), "Berth 0.1.0 is installed in DIR/lib/berth, and all is as it should be\n");
    assert.equal(at.called.length, 6);
  });

  it("asks on a terminal, and takes anything but yes for no", async () => {
    await using at = await machine();
    const no = terminal({ "Do this? [y/N]": "no" });
    assert.match(await at.install({ isConfirmed: false, ...no }), /nothing has been done; --yes does it\n$/);
    await assertUntouched(at);
    const yes = terminal({ "Do this? [y/N]": "y" });
    assert.match(await at.install({ isConfirmed: false, ...yes }), /is installed and runs/);
  });

  it("asks for what the edge proxy needs, and shows no password", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    const person = terminal({
      "name of this machine for clients [svc.local]:": "ai.example.com",
      "your address, for the certificate's authority:": "ada@example.com",
      "user for people [admin]:": "",
      "password for people (8 characters or more):": "horse battery staple",
      "Do this? [y/N]": "yes",
    });
    const text = await at.install({ isConfirmed: false, env: { SVC_AUTH_ENABLED: "1" }, ...person });
    assert.match(text, /dashboard {2}https:\/\/ai\.example\.com\//);
    assert.ok(!person.shown().includes("staple"));
    assert.match(
      await readFile(at.at("etc/Caddyfile"), "utf8"),
      /email ada@example\.com[^]*admin \$2|admin \$2[^]*email ada@example\.com/,
    );
    const settings = await readFile(at.layout.environmentFile, "utf8");
    assert.match(settings, /^SVC_HOSTNAME=ai\.example\.com\nSVC_TLS_EMAIL=ada@example\.com$/m);
    assert.ok(!settings.includes("SVC_ADMIN"));
    const again = terminal({ "Do this? [y/N]": "yes" });
    assert.match(await at.install({ isConfirmed: false, ...again }), /all is as it should be\n$/);
  });

  it("goes on where an earlier run has ended, and copies again what was half copied", async () => {
    await using at = await machine();
    await mkdir(join(at.layout.prefix, ".0.1.0.partial/bin"), { recursive: true });
    await at.install();
    await rm(at.layout.command);
    await rm(join(at.layout.unitsDir, "berth-gateway.service"));
    const text = await at.install();
    assert.match(
      text,
      /^Berth 0\.1\.0 will:\n {2}make the command DIR\/bin\/berth\n {2}write DIR\/etc\/systemd\/berth-gateway\.service\n {2}restart/,
    );
    assert.deepEqual((await readdir(at.layout.prefix)).toSorted(), ["0.1.0", "current", "installed.json"]);
  });

  it("restarts the services where an earlier run has ended before it did", async () => {
    await using at = await machine();
    await at.install();
    for (const change of ["setting", "unit"]) {
      const env: NodeJS.ProcessEnv = change === "setting" ? { SVC_AUTH_ENABLED: "1" } : {};
      if (change === "unit") await rm(join(at.layout.unitsDir, "berth-gateway.service"));
      const restart = async (): Promise<void> => await Promise.reject(new Error("no"));
      const ended = { env, hasEdge: false, services: { ...at.services, restart } };
      assert.match(await refusal(at, ended), /^install\.failed: could not restart/);
      at.called.length = 0;
      assert.match(await at.install({ hasEdge: false }), /^ {2}restart berth-operator and berth-gateway$/m, change);
      assert.deepEqual(
        at.called.filter((line) => line.startsWith("restart")),
        ["restart berth-operator", "restart berth-gateway"],
      );
      assert.match(await at.install({ hasEdge: false }), /all is as it should be\n$/);
    }
  });

  it("keeps a unit that a person has edited, and writes the new text beside it", async () => {
    await using at = await machine();
    const unit = join(at.layout.unitsDir, "berth-gateway.service");
    await at.install();
    const ours = await readFile(unit, "utf8");
    await writeFile(unit, `${ours}# mine\n`);
    assert.match(
      await at.install(),
      /^DIR\/etc\/systemd\/berth-gateway\.service was edited by a person and stays; \S+\.new is the new text/m,
    );
    assert.deepEqual([await readFile(unit, "utf8"), await readFile(`${unit}.new`, "utf8")], [`${ours}# mine\n`, ours]);
    assert.match(await at.install(), /edited by a person.*\n.*all is as it should be\n$/);
    await writeFile(unit, ours);
    await at.install();
    assert.equal((await readdir(at.layout.unitsDir)).includes("berth-gateway.service.new"), false);
  });

  it("adds settings to the file, and overwrites no line that is there", async () => {
    await using at = await machine();
    await writeFile(at.layout.environmentFile, "# mine\nSVC_HOLD_SECONDS=7\nHF_TOKEN=secret");
    const text = await at
      .install({ env: { ...at.ports, SVC_HOLD_SECONDS: "9", SVC_CORS_ORIGINS: "http://a b" } })
      .catch((error: unknown) => String(error));
    assert.match(text, /SVC_CORS_ORIGINS/);
    const said = await at.install({ env: { SVC_HOLD_SECONDS: "9" } });
    assert.match(said, /^SVC_HOLD_SECONDS stays as DIR\/etc\/default\/berth has it; edit the file to change it$/m);
    const file = await readFile(at.layout.environmentFile, "utf8");
    assert.match(file, /^# mine\nSVC_HOLD_SECONDS=7\nHF_TOKEN=secret\nSVC_HOST=127\.0\.0\.1\nSVC_PORT=\d+\n/);
  });

  it("makes the slot primary of a model, by a link where the service may read the file", async () => {
    await using at = await machine();
    const file = at.at("given.gguf");
    await writeFile(file, "GGUF and more");
    assert.match(
      await at.install({ model: file }),
      /link DIR\/given\.gguf as DIR\/var\/berth\/models\/given\.gguf\n[^]*Next: \S+ berth chat primary "hello"\n/,
    );
    const linked = await stat(join(at.layout.stateDir, "models/given.gguf"));
    assert.equal(linked.ino, (await stat(file)).ino);
    assert.match(
      await readFile(join(at.layout.configDir, "slots/primary.toml"), "utf8"),
      /\[model\]\ndefault = "given"\n$/,
    );
    await writeFile(at.at("other.gguf"), "GGUF, but another");
    assert.match(
      await at.install({ model: at.at("other.gguf") }),
      /the slot primary stays as DIR\/etc\/berth\/slots\/primary\.toml declares it/,
    );
  });

  it(
    "copies all parts of a model that the service may not read",
    { skip: process.getuid?.() !== 0 ? "only root has files of others" : false },
    async () => {
      await using at = await machine();
      at.accounts.set("berth", { name: "berth", uid: otherUser, gid: otherUser, home: at.layout.stateDir });
      for (const part of ["00001", "00002"]) await writeFile(at.at(`m-${part}-of-00002.gguf`), "GGUF", { mode: 0o600 });
      await chmod(at.path, 0o755);
      await at.install({ model: at.at("m-00002-of-00002.gguf") });
      const copy = await stat(join(at.layout.stateDir, "models/m-00001-of-00002.gguf"));
      assert.deepEqual([copy.uid, copy.mode & 0o777], [otherUser, 0o640]);
      assert.match(await readFile(join(at.layout.configDir, "slots/primary.toml"), "utf8"), /default = "m"/);
      // The manifest is the service's, and is read as its user; a person's change of it stays, also a wrong one.
      const manifest = join(at.layout.configDir, "slots/primary.toml");
      await writeFile(manifest, `${await readFile(manifest, "utf8")}\n[engine]\nkind = "embedded"\n`);
      const text = await readFile(manifest, "utf8");
      assert.match(await at.install({ model: at.at("m-00002-of-00002.gguf") }), /all is as it should be\n$/);
      assert.equal(await readFile(manifest, "utf8"), text);
    },
  );

  it(
    "changes nothing outside where the service has links in place of the model's directory, file or copy",
    { skip: noOtherUser() ?? false },
    async () => {
      for (const mode of [0o600, 0o644])
        for (const trap of ["models", "models/given.gguf", "models/.given.gguf.partial"]) {
          await using at = await machine();
          await chmod(at.path, 0o755);
          at.accounts.set("berth", { name: "berth", uid: otherUser, gid: otherUser, home: at.layout.stateDir });
          await at.install();
          await mkdir(at.at("victim"), { mode: 0o755 });
          await writeFile(at.at("victim/file"), "GGUF", { mode: 0o600 });
          const place = join(at.layout.stateDir, trap);
          const models = join(at.layout.stateDir, "models");
          await rm(trap === "models" ? models : place, { recursive: true, force: true });
          // The service's user makes the link as soon as root has begun.
          const target = trap === "models" ? at.at("victim") : at.at("victim/file");
          const asService = ["--reuid", String(otherUser), "--regid", String(otherUser), "--clear-groups"];
          assert.equal(spawnSync("setpriv", [...asService, "ln", "-s", target, place]).status, 0);
          await writeFile(at.at("given.gguf"), "GGUF", { mode });
          await at.install({ model: at.at("given.gguf") }).catch(() => undefined);
          const [directory, file] = [await stat(at.at("victim")), await stat(at.at("victim/file"))];
          const what = `${trap} ${mode.toString(8)}`;
          assert.deepEqual(await readdir(at.at("victim")), ["file"], what);
          assert.deepEqual([directory.uid, directory.mode & 0o777], [0, 0o755], what);
          assert.deepEqual([file.uid, file.mode & 0o777, file.nlink], [0, 0o600, 1], what);
        }
    },
  );

  it(
    "gives the service no file that another has put there while the model is copied",
    { skip: noOtherUser() ?? false },
    async () => {
      await using at = await machine();
      await chmod(at.path, 0o755);
      at.accounts.set("berth", { name: "berth", uid: otherUser, gid: otherUser, home: at.layout.stateDir });
      await at.install();
      await writeFile(at.at("victim"), "secret", { mode: 0o600 });
      await writeFile(at.at("given.gguf"), Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(64 * 1024 * 1024)]), {
        mode: 0o600,
      });
      const partial = join(at.layout.stateDir, "models/.given.gguf.partial");
      // A DOUBLE of a compromised service: it puts a link in the place of the copy as soon as that is begun.
      const script = 'until [ -e "$1" ]; do [ -d "$3" ] || exit; done; ln -s "$2" "$1.link"; mv -T "$1.link" "$1"';
      const service = spawn("sh", ["-c", script, "sh", partial, at.at("victim"), at.path], {
        uid: otherUser,
        gid: otherUser,
      });
      const ended = once(service, "exit");
      // On a busy machine a copy may be over before the service has looked.
      await until("the link is put there", async () => {
        await rm(join(at.layout.stateDir, "models/given.gguf"), { force: true });
        await at.install({ model: at.at("given.gguf") }).catch(() => undefined);
        return service.exitCode !== null;
      });
      await ended;
      const { uid, mode } = await stat(at.at("victim"));
      assert.deepEqual([uid, mode & 0o777], [0, 0o600]);
    },
  );

  it("makes the first token and the edge proxy with authentication, and keeps no password", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    const caddyfile = at.at("etc/Caddyfile");
    await writeFile(caddyfile, "debian's\n");
    at.setConffiles(` ${caddyfile} ${createHash("md5").update("debian's\n").digest("hex")}`);
    const text = await at.install({ env: edge });
    assert.match(
      text,
      /^ {2}token {6}svc_\S+ {2}\(shown this once\)\n[^]*dashboard {2}https:\/\/ai\.local\/\n[^]*\nNext: put a model/m,
    );
    assert.match(await readFile(caddyfile, "utf8"), /^ai\.local \{$/m);
    assert.equal((await stat(caddyfile)).mode & 0o777, 0o640);
    assert.equal(await readFile(`${caddyfile}.before-berth`, "utf8"), "debian's\n");
    assert.ok(at.called.includes("systemctl reload-or-restart caddy.service"));
    for (const name of await readdir(at.path, { recursive: true, withFileTypes: true }).then((entries) =>
      entries.filter((entry) => entry.isFile()),
    ))
      assert.ok(!(await readFile(join(name.parentPath, name.name), "utf8")).includes("staple"), name.name);
    // With the password and without, nothing is left to do; another password is kept.
    assert.match(await at.install({ env: edge }), /^Berth 0\.1\.0 is installed .* all is as it should be\n$/);
    assert.match(await at.install(), /all is as it should be\n$/);
    const before = await readFile(caddyfile, "utf8");
    const changed = await at.install({ env: { ...edge, SVC_ADMIN_PASSWORD: "another one" } });
    assert.match(changed, /will:\n {2}write DIR\/etc\/Caddyfile/);
    assert.ok(!changed.includes("svc_"));
    assert.notEqual(await readFile(caddyfile, "utf8"), before);
  });

  it("keeps a Caddyfile that somebody else wrote", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    await writeFile(at.at("etc/Caddyfile"), "mine\n");
    assert.match(
      await at.install({ env: edge }),
      /Caddyfile was written by somebody else and stays; `berth proxy render` prints Berth's part/,
    );
    assert.equal(await readFile(at.at("etc/Caddyfile"), "utf8"), "mine\n");
    assert.match(await at.install({ env: edge }), /somebody else.*\n.*all is as it should be\n$/);
  });

  it("makes tokens alone with --no-edge, and for a user", async () => {
    await using at = await machine();
    assert.match(
      await at.install({ env: { SVC_AUTH_ENABLED: "1" }, hasEdge: false }),
      /token {6}svc_[^]*dashboard {2}http:/,
    );
    await using own = await machine({ isSystem: false });
    assert.match(await own.install({ env: { SVC_AUTH_ENABLED: "1" } }), /token {6}svc_[^]*loginctl enable-linger\n$/);
    assert.equal((await stat(own.layout.environmentFile)).mode & 0o777, 0o600);
    assert.ok(!own.called.some((line) => line.startsWith("useradd")));
  });

  it("leaves the edge proxy out until it is asked for", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    await at.install({ env: edge, hasEdge: false });
    assert.match(await at.install({ hasEdge: undefined }), /all is as it should be\n$/);
    assert.match(
      await at.install({ env: edge, hasEdge: true }),
      /make the edge proxy after all\n {2}write DIR\S+Caddyfile/,
    );
    assert.match(await at.install({ hasEdge: undefined }), /all is as it should be\n$/);
  });

  it("has Caddy load the file in the next run where it did not", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    const run = async (program: string, words: readonly string[]): Promise<string> => {
      if (words[0] === "reload-or-restart") throw new Error("no");
      return await at.host.run(program, words);
    };
    assert.match(
      await refusal(at, { env: edge, host: { ...at.host, run } }),
      /^install\.edge_failed: Caddy does not take DIR\/etc\/Caddyfile\njournalctl -u caddy -n 50$/,
    );
    await at.install({ env: edge });
    assert.equal(at.called.at(-1), "systemctl reload-or-restart caddy.service");
    assert.match(await at.install({ env: edge }), /all is as it should be\n$/);
  });

  it("takes its own Caddyfile for its own after a kill between the file and the record", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    await at.install({ env: edge });
    const { proxy: _, ...record } = JSON.parse(await readFile(at.layout.record, "utf8"));
    await writeFile(at.layout.record, JSON.stringify(record));
    assert.match(await at.install({ env: edge }), /will:\n {2}write DIR\/etc\/Caddyfile/);
    assert.match(await at.uninstall(), /^removed DIR\/etc\/Caddyfile$/m);
  });

  it("makes a program that everybody may read of one that its owner alone could", async () => {
    await using at = await machine();
    await chmod(join(at.root, "bin/berth"), 0o700);
    await chmod(join(at.root, "bin"), 0o700);
    await chmod(join(at.root, "package.json"), 0o660);
    await at.install();
    const modes = ["bin", "bin/berth", "package.json"].map(async (name) => {
      const { mode } = await stat(join(at.layout.prefix, "0.1.0", name));
      return (mode & 0o777).toString(8);
    });
    assert.deepEqual(await Promise.all(modes), ["755", "755", "644"]);
  });

  it("waits for no other installation, update or removal", async () => {
    await using at = await machine();
    await at.install();
    await using _other = await acquireLock(join(at.layout.prefix, ".update.lock"));
    await rm(at.layout.command);
    const running = /^install\.running: another installation, update or removal runs \(process \d+\)\nwait for its end/;
    assert.match(await refusal(at), running);
    assert.match((await rejectionOf(at.uninstall(), CommandError)).code, /^install\.running$/);
    assert.equal(await isThere(at.layout.environmentFile), true);
  });

  it("does all but the services where no manager runs, and says how to run Berth", async () => {
    await using at = await machine({ kind: "none" });
    assert.match(
      await at.install(),
      /Berth 0\.1\.0 is installed\.\n[^]*No service manager runs here, so nothing was started\. To run Berth: runuser -u berth -- berth up\n$/,
    );
    assert.equal(await isThere(at.layout.unitsDir), false);
    assert.match(await at.install(), /all is as it should be\n$/);
    await using own = await machine({ isSystem: false, kind: "none" });
    assert.match(await own.install(), /To run Berth: berth up\n$/);
  });
});

describe("berth install of a newer release", () => {
  it("updates the older one that runs, gateway by gateway", async () => {
    await using at = await machine();
    await at.install();
    at.called.length = 0;
    const root = await at.release("0.2.0");
    const text = await at.install({ root, version: "0.2.0" });
    assert.match(
      text,
      /^Berth 0\.2\.0 will:\n {2}copy the program to DIR\/lib\/berth\/0\.2\.0\n {2}update from 0\.1\.0 to 0\.2\.0\nBerth 0\.2\.0 is installed and runs\.\n/,
    );
    assert.deepEqual(
      at.called.filter((line) => !line.startsWith("stop")),
      ["reload", "start berth-gateway-standby", "restart berth-operator", "restart berth-gateway"],
    );
    assert.equal(await readlink(at.layout.current), "0.2.0");
    const record = await readRecord(at.layout);
    assert.deepEqual([record?.version, record?.previous], ["0.2.0", ["0.1.0"]]);
    assert.match(await at.install({ root, version: "0.2.0" }), /all is as it should be\n$/);
  });

  it("keeps what the update has recorded when it notes the edge proxy as well", async () => {
    await using at = await machine();
    at.programs.add("caddy");
    await at.install({ env: edge, hasEdge: false });
    const root = await at.release("0.2.0");
    const text = await at.install({ root, version: "0.2.0", env: edge, hasEdge: true });
    assert.match(text, /update from 0\.1\.0 to 0\.2\.0\n {2}make the edge proxy after all\n {2}write DIR\S+Caddyfile/);
    const record = await readRecord(at.layout);
    assert.deepEqual([record?.version, record?.previous, record?.no_edge], ["0.2.0", ["0.1.0"], false]);
    assert.equal(record?.proxy?.file, at.at("etc/Caddyfile"));
  });

  it("takes the place of an older one that was never installed whole", async () => {
    await using at = await machine();
    // No copy is made of a pipe.
    spawnSync("mkfifo", [join(at.root, "pipe")]);
    await refusal(at);
    assert.equal((await readRecord(at.layout))?.version, "0.1.0");
    await at.install({ root: await at.release("0.2.0"), version: "0.2.0" });
    assert.equal((await readRecord(at.layout))?.version, "0.2.0");
  });

  it("goes back where the newer one does not become ready", async () => {
    await using at = await machine();
    await at.install();
    const root = await at.release("0.2.0");
    at.breakUnit("berth-gateway-standby");
    assert.match(
      await refusal(at, { root, version: "0.2.0", readyMs: 300 }),
      /^update\.rolled_back: 0\.2\.0 did not become ready, and 0\.1\.0 runs again/,
    );
    assert.equal(await readlink(at.layout.current), "0.1.0");
  });
});

describe("berth install changes nothing", () => {
  it("from a clone or a package of npm", async () => {
    await using at = await machine();
    await rm(join(at.root, "release.json"));
    assert.match(
      await refusal(at),
      /^install\.no_release: \S+ is a package of npm, and only a release can be installed\n/,
    );
    await assertUntouched(at);
    const { code, stderr } = await runBerth(["install"], { HOME: at.path });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^install\.no_release: \S+ is a clone of the sources, and only a release can be installed\nunpack a release/,
    );
  });

  it("with a setting that does not exist, or that is another directory", async () => {
    await using at = await machine();
    const error = await rejectionOf(at.install({ env: { SVC_COLOUR: "red" } }), SettingsError);
    assert.deepEqual(error.lines, ["SVC_COLOUR is not a setting"]);
    const close = await rejectionOf(at.install({ env: { SVC_PROT: "1" } }), SettingsError);
    assert.match(close.message, /^SVC_PROT is not a setting; did you mean SVC_PORT\?$/);
    assert.match(
      await refusal(at, { env: { SVC_STATE_DIR: "/srv/x" } }),
      /^config\.invalid: SVC_STATE_DIR is \/srv\/x, and an installation uses DIR/,
    );
    await assertUntouched(at);
  });

  it("where another program has the port", async () => {
    await using at = await machine();
    const server = createServer();
    await listen(server, Number(at.ports.SVC_PORT));
    const text = await refusal(at);
    server.close();
    await once(server, "close");
    assert.match(
      text,
      /^install\.port_taken: port \d+ is taken by another program\nstop that program, or set SVC_PORT to another port$/,
    );
    await assertUntouched(at);
  });

  it("where the user berth is somebody else", async () => {
    await using at = await machine();
    at.accounts.set("berth", { name: "berth", uid: 4242, gid: 4242, home: "/srv/other" });
    assert.match(
      await refusal(at),
      /^install\.user_taken: the user berth is there already with the home directory \/srv\/other/,
    );
    await assertUntouched(at);
  });

  it("where the configuration directory is a stranger's", { skip: noOtherUser() ?? false }, async () => {
    await using at = await machine();
    await mkdir(at.layout.configDir, { recursive: true });
    await chmod(at.path, 0o755);
    await chown(at.layout.configDir, otherUser, otherUser);
    assert.match(
      await refusal(at),
      /^install\.directory_foreign: DIR\/etc\/berth belongs to .*65534.*, who could change what the services run\nmove it away/,
    );
    await assertUntouched(at);
  });

  it("where it may not write", { skip: process.getuid?.() === 0 ? "root may write everywhere" : false }, async () => {
    await using at = await machine();
    await chmod(at.at("bin"), 0o555);
    assert.match(
      await refusal(at),
      /^install\.not_writable: DIR\/bin cannot be made: you have no right to write there/,
    );
    await assertUntouched(at);
  });

  it("where another command has the name", async () => {
    await using at = await machine();
    await symlink("/opt/berth/bin/berth", at.layout.command);
    assert.match(
      await refusal(at),
      /^install\.command_taken: DIR\/bin\/berth is there already, and does not lead to DIR\/lib\/berth\/current\nrm DIR\/bin\/berth$/,
    );
    await assertUntouched(at);
  });

  it("without the space, or without the whole release", async () => {
    await using at = await machine();
    const file = join(at.root, "release.json");
    const whole = await readFile(file, "utf8");
    await writeFile(file, whole.replace("1000", "9000000000000000"));
    assert.match(await refusal(at), /^install\.no_space: DIR\/lib\/berth needs .*, and .* are free\nmake room there$/);
    await writeFile(file, "{");
    assert.match(
      await refusal(at),
      /^install\.release_invalid: \S+release\.json does not read\nunpack the release again$/,
    );
    await assertUntouched(at);
  });

  it("where a newer release is installed", async () => {
    await using at = await machine();
    await mkdir(join(at.layout.prefix, "0.2.0"), { recursive: true });
    await symlink("0.2.0", at.layout.current);
    assert.match(
      await refusal(at),
      /^install\.newer_installed: 0\.2\.0 is installed, which is newer than 0\.1\.0\n`berth update --rollback`/,
    );
    assert.deepEqual(at.called, []);
  });

  it("without Caddy, or with a name, a user or a password that the proxy cannot have", async () => {
    await using at = await machine();
    assert.equal(
      await refusal(at, { env: edge }),
      "install.no_caddy: the edge proxy needs Caddy, which is not installed\napt-get install -y --no-install-recommends caddy; or leave the proxy out with --no-edge",
    );
    at.programs.add("caddy");
    for (const [wrong, why] of [
      [{ SVC_HOSTNAME: "ai.example.com" }, /SVC_TLS_EMAIL must be an address/],
      [{ SVC_ADMIN_PASSWORD: "short" }, /SVC_ADMIN_PASSWORD must have at least 8 characters/],
      [{ SVC_ADMIN_USER: "" }, /SVC_ADMIN_USER is not set\nset it in the environment of this one command/],
      [{ SVC_ADMIN_PASSWORD: "" }, /SVC_ADMIN_PASSWORD is not set/],
    ] as const)
      assert.match(await refusal(at, { env: { ...edge, ...wrong } }), why);
    await assertUntouched(at);
  });

  it("with a model that is none", async () => {
    await using at = await machine();
    await writeFile(at.at("text.gguf"), "text");
    await writeFile(at.at("my model.gguf"), "GGUF");
    assert.match(
      await refusal(at, { model: at.at("my model.gguf") }),
      /^model\.unsupported_format: DIR\/my model\.gguf has a name that a model cannot have\nrename it: letters, digits/,
    );
    await writeFile(at.at("m-00001-of-00002.gguf"), "GGUF");
    assert.match(
      await refusal(at, { model: at.at("none.gguf") }),
      /^model\.unsupported_format: there is no file DIR\/none\.gguf/,
    );
    assert.match(await refusal(at, { model: at.at("text.gguf") }), /DIR\/text\.gguf is no GGUF file/);
    assert.match(
      await refusal(at, { model: at.at("m-00001-of-00002.gguf") }),
      /is one of 2 parts, and not all of them are beside it/,
    );
    await assertUntouched(at);
  });
});

describe("berth install fails in one clear line", () => {
  it("while it copies, and leaves no half of the program", async () => {
    await using at = await machine();
    // No copy is made of a pipe: as on a full disk, the copying ends in its middle.
    spawnSync("mkfifo", [join(at.root, "pipe")]);
    assert.match(
      await refusal(at),
      /^install\.failed: could not copy the program to DIR\/lib\/berth\/0\.1\.0: .*\nmend that, then run the same command again/,
    );
    assert.deepEqual(await readdir(at.layout.prefix), ["installed.json"]);
    await rm(join(at.root, "pipe"));
    assert.match(await at.install(), /is installed and runs/);
  });

  it("at Ctrl-C, and goes on from there", async () => {
    await using at = await machine();
    const here = JSON.stringify(new URL("./machine.ts", import.meta.url).href);
    // A DOUBLE of a person: Ctrl-C while a service starts.
    const script = `
      import { machine } from ${here};
      await using at = await machine();
      const start = async () => await new Promise((resolve) => { process.kill(process.pid, "SIGINT"); setTimeout(resolve, 60_000); });
      await at.install({ services: { ...at.services, start }, screen: process.stderr });`;
    const words = ["--disable-warning=ExperimentalWarning", "--input-type=module", "-e", script];
    const { code, stderr } = await endOf(process.execPath, words, { TMPDIR: at.path });
    assert.deepEqual([code, stderr], [130, "\ninterrupted; run the same command again: it goes on from there\n"]);
  });

  it("where a service does not become ready", async () => {
    await using at = await machine();
    at.breakUnit("berth-gateway");
    assert.equal(
      await refusal(at, { readyMs: 300 }),
      "install.not_ready: berth-gateway is not ready after 0 s: the port is taken\njournalctl -u berth-gateway -n 50",
    );
    at.breakUnit(undefined);
    assert.match(await at.install(), /^Berth 0\.1\.0 will:\n {2}skip the pages' setup, since this has done it\n/);
  });

  it("after the first token, which it has shown", async () => {
    await using at = await machine();
    at.breakUnit("berth-gateway");
    let said = "";
    const write = (text: string): void => void (said += text);
    const env = { SVC_AUTH_ENABLED: "1" };
    assert.match(await refusal(at, { env, hasEdge: false, readyMs: 300, write }), /^install\.not_ready/);
    assert.match(said, /^ {2}token {6}svc_\S+ {2}\(shown this once\)$/m);
  });

  it("with a record that does not read", async () => {
    await using at = await machine();
    await at.install();
    await writeFile(at.layout.record, "{");
    assert.match(await refusal(at), /^install\.record_invalid: DIR\/lib\/berth\/installed\.json does not read/);
  });
});
