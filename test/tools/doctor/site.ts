import { chmod, mkdir, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { dirname, join } from "node:path";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import type { PublishedOperator } from "../../../src/api/status.ts";
import { bootId } from "../../../src/lib/boot-id.ts";
import { openDemandWriter } from "../../../src/store/state/demand.ts";
import { doctorFindings, type DoctorOptions } from "../../../src/tools/doctor/doctor.ts";
import { findingText } from "../../../src/tools/doctor/finding.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { listen } from "../../support/listen.ts";
import { freePorts } from "../../support/ports.ts";
import { tempDir } from "../../support/temp-dir.ts";

export type DoctorSite = Awaited<ReturnType<typeof doctorSite>>;

/** A machine of which everything is known: its directories and ports are real, its hardware is given. */
export async function doctorSite() {
  const directory = await tempDir();
  const { first } = await freePorts(4);
  const ports = { api: first, operator: first + 1, slots: [first + 2, first + 3] } as const;
  const stateDir = join(directory.path, "state");
  const configDir = join(directory.path, "config");
  /** Writes a file below the site's own directory, executable where its text begins with `#!`. */
  const put = async (file: string, text: string): Promise<string> => {
    const path = join(directory.path, file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
    await chmod(path, text.startsWith("#!") ? 0o755 : 0o644);
    return path;
  };
  const llamaServer = await put("bin/llama-server", "#!/bin/sh\necho version: 1\n");
  const now = new Date();
  const places = { SVC_CONFIG_DIR: configDir, SVC_STATE_DIR: stateDir, SVC_LLAMA_SERVER: llamaServer };
  const listening = {
    SVC_HOST: "127.0.0.1",
    SVC_PORT: String(ports.api),
    SVC_OPERATOR_PORT: String(ports.operator),
    SVC_SLOT_PORTS: `${ports.slots[0]}-${ports.slots[1]}`,
  };
  /** What `berth doctor` prints, with this directory as DIR and ports as their names. */
  async function examine(env: NodeJS.ProcessEnv = {}, options: Partial<DoctorOptions> = {}): Promise<string> {
    let text = "";
    for await (const finding of doctorFindings({
      env: { PATH: "/usr/bin:/bin", SVC_RUNTIME: "process", ...places, ...listening, ...env },
      nodeVersion: "24.1.0",
      uid: 1000,
      embedded: () => undefined,
      probe: async () => facts,
      now: () => now.getTime(),
      ...options,
    }))
      text += findingText(finding);
    return text
      .replaceAll(directory.path, "DIR")
      .replaceAll(String(ports.api), "API")
      .replaceAll(String(ports.operator), "OPERATOR")
      .replaceAll(String(ports.slots[0]), "FIRST")
      .replaceAll(String(ports.slots[1]), "LAST")
      .replaceAll(`process ${process.pid}`, "process PID");
  }
  return {
    stateDir,
    configDir,
    /** The time of its clock, which stands still. */
    now,
    /** Of the API, of the operator, of two slots. */
    ports,
    put,
    examine,
    /** The findings of one check. */
    async check(name: string, env?: NodeJS.ProcessEnv, options?: Partial<DoctorOptions>): Promise<string> {
      const findings = (await examine(env, options)).split(/\n(?=ok|warn|fail)/);
      return findings
        .filter((finding) => finding.slice(6).startsWith(`${name}:`))
        .join("\n")
        .trimEnd();
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

export const facts: HardwareFacts = {
  ...pcFacts,
  disks: [{ use: "state", path: "/state", total_bytes: 100 * 1024 ** 3, free_bytes: 50 * 1024 ** 3, evidence: [] }],
};

/** What an operator says of itself now. */
export function operatorRecord(site: DoctorSite, sketch: Partial<PublishedOperator> = {}): string {
  const now = site.now.toISOString();
  return JSON.stringify({
    schema: 1,
    instance: "i",
    pid: process.pid,
    bootId: bootId(),
    startedAt: now,
    heartbeat: now,
    incarnation: "o",
    beat: 1,
    isPaused: false,
    isSettled: true,
    slotCount: 0,
    configDir: site.configDir,
    problems: [],
    ...sketch,
  } satisfies PublishedOperator);
}

/** A DOUBLE of whatever listens on a port. */
export async function stranger(
  port: number,
  answer: RequestListener = (_, response) => response.end(),
): Promise<AsyncDisposable> {
  const server = createServer(answer);
  await listen(server, port);
  return {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A DOUBLE of a gateway, as far as a doctor asks it. */
export const gateway =
  (health: object): RequestListener =>
  ({ url }, response) => {
    response.end(JSON.stringify(url === "/api/status" ? { name: "berth", version: "1.2.3" } : health));
  };

/** The demand of a gateway that lives until the result is disposed, however slow the machine is. */
export async function demandOf(site: DoctorSite): Promise<AsyncDisposable> {
  const writer = await openDemandWriter(site.stateDir, "g");
  const write = (): Promise<void> => writer.write({ slots: {} });
  await write();
  const beats = setInterval(() => void write(), 500);
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(beats);
      await writer[Symbol.asyncDispose]();
    },
  };
}
