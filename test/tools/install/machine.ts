import { execFileSync } from "node:child_process";
import { chmod, mkdir, readFile, readlink, rm, rmdir, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { basename, dirname, join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import type { Account } from "../../../src/lib/accounts.ts";
import { install, type InstallOptions } from "../../../src/tools/install/install.ts";
import { readRecord } from "../../../src/tools/install/installed-record.ts";
import type { Layout } from "../../../src/tools/install/layout.ts";
import { readEnvironment } from "../../../src/tools/install/environment-file.ts";
import type { Services, Unit } from "../../../src/tools/install/services.ts";
import type { Health } from "../../../src/tools/release/health.ts";
import type { Host } from "../../../src/tools/install/install-target.ts";
import { uninstall, type UninstallOptions } from "../../../src/tools/install/uninstall.ts";
import { listen } from "../../support/listen.ts";
import { freePorts } from "../../support/ports.ts";
import { tempDir } from "../../support/temp-dir.ts";

/**
 * A DOUBLE of a machine: its directories lie in a temporary one, its accounts in memory, and its service manager answers as
 * Berth's services would once they run. The user `berth` is this process's user, so that a test may be anybody's.
 */
export async function machine({ isSystem = true, kind = isSystem ? "system" : "user" }: MachineOptions = {}) {
  const directory = await tempDir();
  const { path } = directory;
  const at = (...names: string[]): string => join(path, ...names);
  const layout: Layout = {
    isSystem,
    prefix: at("lib/berth"),
    current: at("lib/berth/current"),
    command: at("bin/berth"),
    configDir: at("etc/berth"),
    stateDir: at("var/berth"),
    environmentFile: at("etc/default/berth"),
    unitsDir: at("etc/systemd"),
    record: at("lib/berth/installed.json"),
  };
  const { first } = await freePorts(3);
  const ports = { SVC_PORT: String(first), SVC_OPERATOR_PORT: String(first + 1), SVC_CHAT_PORT: String(first + 2) };
  const accounts = new Map<string, Account>();
  const groups = new Map<string, number>();
  const programs = new Set<string>();
  const called: string[] = [];
  const host: Host = {
    account: (name) => accounts.get(name),
    groupId: (name) => groups.get(name),
    has: (program) => programs.has(program),
    run: async (program, args) => {
      if (program === "chmod") return execFileSync(program, args, { encoding: "utf8" });
      if (program !== "sync") called.push([program, ...args].join(" "));
      const name = args.at(-1) ?? "";
      if (program === "useradd") {
        const [uid, gid] = [serviceUid ?? process.getuid?.() ?? 0, serviceUid ?? process.getgid?.() ?? 0];
        accounts.set(name, { name, uid, gid, home: layout.stateDir });
        groups.set(name, gid);
      }
      if (program === "userdel") accounts.delete(name);
      if (program === "groupdel") groups.delete(name);
      return program === "dpkg-query" ? debians : "";
    },
  };
  let debians = "";
  let serviceUid: number | undefined;
  const running = new Map<Unit, Server>();
  const versions = new Map<Unit, string>();
  let broken: Unit | undefined;
  const startUnit = async (unit: Unit): Promise<void> => {
    versions.set(unit, basename(await readlink(layout.current)));
    if (running.has(unit)) return;
    const server = createServer((request, response) => {
      if (request.url === "/api/install/complete")
        void writeFile(join(layout.stateDir, "installed"), "").then(() => response.end("{}"));
      else response.writeHead(unit === broken ? 503 : 200).end();
    });
    // The standby shares its port with the gateway, which a double need not do.
    const port = {
      "berth-operator": ports.SVC_OPERATOR_PORT,
      "berth-gateway": ports.SVC_PORT,
      "berth-gateway-standby": 0,
    }[unit];
    await listen(server, Number(port));
    running.set(unit, server);
  };
  const stopUnit = async (unit: Unit): Promise<void> => {
    const server = running.get(unit);
    running.delete(unit);
    server?.closeAllConnections();
    await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
  };
  const wants = (unit: Unit): string =>
    join(layout.unitsDir, isSystem ? "multi-user.target.wants" : "default.target.wants", `${unit}.service`);
  const noted = async (what: string, unit: Unit, act?: () => Promise<unknown>): Promise<void> => {
    called.push(`${what} ${unit}`);
    await act?.();
  };
  const services: Services = {
    kind,
    start: (unit) => noted("start", unit, () => startUnit(unit)),
    stop: (unit) => noted("stop", unit, () => stopUnit(unit)),
    restart: (unit) => noted("restart", unit, () => startUnit(unit)),
    enable: (unit) =>
      noted("enable", unit, async () => {
        await mkdir(dirname(wants(unit)), { recursive: true });
        await symlink(`../${unit}.service`, wants(unit)).catch(() => undefined);
      }),
    disable: (unit) =>
      noted("disable", unit, async () => {
        await rm(wants(unit), { force: true });
        // systemctl does so too.
        await rmdir(dirname(wants(unit))).catch(() => undefined);
      }),
    isActive: async (unit) => running.has(unit),
    reload: async () => void called.push("reload"),
    why: async () => "the port is taken",
  };
  const reported = async (unit: Unit): Promise<string | undefined> =>
    running.has(unit) && unit !== broken ? versions.get(unit) : undefined;
  const health: Health = {
    gateway: async (role) => {
      const version = await reported(role === "gateway" ? "berth-gateway" : "berth-gateway-standby");
      return version === undefined ? undefined : { pid: process.pid, version, isReady: true };
    },
    operator: () => reported("berth-operator"),
    slots: async () => new Map(),
    stateFormat: async () => 1,
  };
  const release = async (version: string, more: Readonly<Record<string, string>> = {}): Promise<string> => {
    const root = at(`unpacked/berth-${version}`);
    const files = {
      "release.json": JSON.stringify({ version, target: "linux-x64", state_format: 1, unpacked_bytes: 1000 }),
      "package.json": JSON.stringify({ name: "berth", version }),
      "bin/berth": `#!/bin/sh\necho ${version}\n`,
      ...Object.fromEntries(
        await Promise.all(
          ["berth-operator", "berth-gateway"].map(async (name) => {
            const file = `manifests/systemd/${name}.service`;
            return [file, await readFile(new URL(`../../../${file}`, import.meta.url), "utf8")] as const;
          }),
        ),
      ),
      ...more,
    };
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, name)), { recursive: true });
      await writeFile(join(root, name), text);
    }
    await chmod(join(root, "bin/berth"), 0o755);
    return root;
  };
  await mkdir(at("etc/default"), { recursive: true });
  await mkdir(at("bin"));
  const root = await release("0.1.0");
  let written = "";
  const take = (text: string): void => void (written += text);
  /** What `act` has written, with the directory as DIR and the ports as their names. */
  const said = async (act: () => Promise<void>): Promise<string> => {
    written = "";
    await act();
    let text = written.replaceAll(path, "DIR");
    for (const [name, port] of Object.entries(ports)) text = text.replaceAll(port, name);
    return text;
  };
  return {
    path,
    at,
    layout,
    host,
    accounts,
    groups,
    programs,
    services,
    called,
    ports,
    root,
    release,
    /** The unit answers, and never as ready; undefined: every unit is ready. */
    breakUnit: (unit: Unit | undefined) => (broken = unit),
    /** The number that a new user `berth` gets, for a test by root. */
    setServiceUid: (uid: number) => (serviceUid = uid),
    /** What dpkg keeps of the files of Caddy. */
    setConffiles: (text: string) => (debians = text),
    install: async (options: Partial<InstallOptions> = {}): Promise<string> =>
      await said(async () => {
        const { env, ...rest } = options;
        await install({
          env: { HOME: path, ...ports, SVC_RUNTIME: "process", ...env },
          root,
          version: "0.1.0",
          layout,
          services,
          host,
          health,
          caddyfile: at("etc/Caddyfile"),
          isConfirmed: true,
          hasEdge: true,
          input: () => new PassThrough(),
          screen: new Writable({ write: (_chunk, _encoding, done) => done() }),
          write: take,
          readyMs: 5000,
          ...rest,
        });
      }),
    uninstall: async (options: Partial<UninstallOptions> = {}): Promise<string> =>
      await said(async () => {
        const record = await readRecord(layout);
        const settings = readEnvironment(await readFile(layout.environmentFile, "utf8").catch(() => ""));
        const places = { SVC_CONFIG_DIR: layout.configDir, SVC_STATE_DIR: layout.stateDir };
        await uninstall({
          env: { HOME: path, ...settings, ...places },
          root,
          isConfirmed: true,
          keepsData: false,
          removesModels: false,
          removesConfig: false,
          isDev: false,
          installation: record === undefined ? undefined : { layout, record, services, host },
          write: take,
          ...options,
        });
      }),
    [Symbol.asyncDispose]: async () => {
      for (const unit of running.keys()) await stopUnit(unit);
      await directory[Symbol.asyncDispose]();
    },
  };
}

interface MachineOptions {
  readonly isSystem?: boolean;
  readonly kind?: Services["kind"];
}
