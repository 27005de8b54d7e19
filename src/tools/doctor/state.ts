import { access, constants, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Config } from "../../api/config.ts";
import { modelRefSchema } from "../../api/names.ts";
import { heartbeatTtlMs, type PublishedOperator } from "../../api/status.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { distrust } from "../../lib/trusted-path.ts";
import type { StoreConfig } from "../../store/opened-store.ts";
import type { TokenView } from "../../api/token.ts";
import { stateTrust } from "../../program/settings.ts";
import { fail, ok, warn, type Finding } from "./finding.ts";

const shownFiles = 20;

type Places = Pick<Config, "modelsDir" | "authEnabled"> & StoreConfig;

/** Whether the state directory can be used. Creates nothing. */
export async function stateFindings({ stateDir, modelsDir }: Places): Promise<Finding[]> {
  const owned = "run this as the user that runs Berth, or set SVC_STATE_DIR to a directory of yours";
  try {
    const status = await stat(stateDir);
    if (!status.isDirectory())
      return [fail("state", `${stateDir} is no directory`, "set SVC_STATE_DIR to another place")];
    await access(stateDir, constants.W_OK | constants.X_OK);
    return [(await unsafeFinding({ stateDir, modelsDir })) ?? ok("state", stateDir)];
  } catch (error) {
    const code = errorCode(error);
    if (code !== "ENOENT")
      return [fail("state", `${stateDir} cannot be written (${code ?? errorMessage(error)})`, owned)];
  }
  const unsafe = await unsafeFinding({ stateDir, modelsDir });
  if (unsafe !== undefined) return [unsafe];
  return (await canBeMade(stateDir))
    ? [ok("state", `${stateDir} is made by the first start`)]
    : [fail("state", `${stateDir} is not there and cannot be made`, owned)];
}

/** Whether models can be fetched, and the files whose names no model may have. A first start makes the directory. */
export async function modelsFindings({ modelsDir }: Pick<Places, "modelsDir">): Promise<Finding[]> {
  const findings: Finding[] = [];
  try {
    await access(modelsDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    const code = errorCode(error) ?? errorMessage(error);
    if (code === "ENOENT" && (await canBeMade(modelsDir))) return [];
    const next =
      code === "EROFS"
        ? "mount it so that it can be written, or name another one with SVC_MODELS_DIR"
        : "give the service's user the right to write there, or name another one with SVC_MODELS_DIR";
    const what = code === "ENOENT" ? "is not there, and cannot be made" : `cannot be written (${code})`;
    findings.push(warn("models", `${modelsDir} ${what}: no model can be fetched into it`, next));
  }
  const { Listing, modelFiles } = await import("../../models/model-files.ts");
  const unnamed = modelFiles(await new Listing(modelsDir).read()).filter(
    ({ ref }) => !modelRefSchema.safeParse(ref).success,
  );
  if (unnamed.length > 0) {
    const paths = unnamed.slice(0, shownFiles).flatMap(({ paths: [path = ""] }) => [path]);
    const more = unnamed.length > shownFiles ? ` and ${unnamed.length - shownFiles} more` : "";
    const text = `not offered, since no model may be called like the file: ${paths.join(", ")}${more}`;
    findings.push(warn("models", text, "rename such a file to letters, digits and . _ : @ -"));
  }
  return findings;
}

/** No command starts with such a directory. */
async function unsafeFinding({
  stateDir,
  modelsDir,
}: Pick<Places, "stateDir" | "modelsDir">): Promise<Finding | undefined> {
  const ofState = distrust(stateDir, stateTrust);
  const found = ofState ?? distrust(modelsDir);
  if (found === undefined) return undefined;
  const why = "everybody who writes there may create tokens and run programs";
  return fail(ofState === undefined ? "models" : "state", `${found.reason}: ${why}`, found.next);
}

async function canBeMade(path: string): Promise<boolean> {
  const parent = dirname(path);
  if (parent === path) return false;
  return await access(parent, constants.W_OK | constants.X_OK).then(
    () => true,
    (error: unknown) => errorCode(error) === "ENOENT" && canBeMade(parent),
  );
}

/** The holder of the lock, its heartbeat, and its reported problems. `isRunning`: there is a holder. */
export async function operatorFindings(
  config: Places,
  now: number,
): Promise<{ readonly findings: readonly Finding[]; readonly isRunning: boolean }> {
  const { openStore } = await import("../../store/open.ts");
  const { stateDir, configDir } = config;
  const isCluster = config.store === "kubernetes";
  const store = openStore(config);
  let pid: number | undefined;
  try {
    pid = await store.leader();
  } catch (error) {
    const why = (isCluster ? undefined : errorCode(error)) ?? errorMessage(error);
    const text = `whether one runs cannot be seen (${why})`;
    const next = isCluster ? "try `kubectl get lease berth-operator`" : "run this as the user that runs Berth";
    return { isRunning: false, findings: [warn("operator", text, next)] };
  }
  if (pid === undefined) {
    const next = isCluster
      ? "`kubectl get pods -l app.kubernetes.io/component=operator` tells of its Pods"
      : "`berth up` starts one with a gateway, `berth operator` one alone";
    const where = isCluster ? "none leads in this namespace" : `none runs with ${stateDir}`;
    return { isRunning: false, findings: [warn("operator", where, next)] };
  }
  const operator = await store.operator();
  // From before the last boot: the lock's holder has not published a heartbeat yet.
  const found = operator?.liveness === "unproven" ? undefined : operator?.record;
  const findings = [heartbeatFinding(pid, found, now)];
  if (found?.isPaused === true)
    findings.push(
      warn("operator", "it is paused: it plans and starts nothing", "start it again without --paused to have it act"),
    );
  if (found !== undefined && found.configDir !== configDir)
    findings.push(
      warn(
        "operator",
        `it watches ${found.configDir}, and this command checks ${configDir}`,
        `SVC_CONFIG_DIR=${found.configDir} berth doctor checks the same directory`,
      ),
    );
  for (const { reason, message } of found?.problems ?? [])
    findings.push(warn("operator", `${reason}: ${message}`, "until then what was in force before stays so"));
  return { isRunning: true, findings };
}

function heartbeatFinding(pid: number, found: PublishedOperator | undefined, now: number): Finding {
  const who = `process ${pid}`;
  if (found === undefined)
    return warn(
      "operator",
      `${who} holds the lock and has not published its heartbeat yet`,
      "run this check again in a moment",
    );
  const ageMs = now - Date.parse(found.heartbeat);
  const seconds = (Math.abs(ageMs) / 1000).toFixed(0);
  if (ageMs > heartbeatTtlMs) {
    const next = "its log has the reason; stop it and start it again: engines keep running meanwhile";
    return fail("operator", `${who} holds the lock, and its last heartbeat is ${seconds} s old`, next);
  }
  if (ageMs < -heartbeatTtlMs) {
    const next = "the clock was set back, or another machine uses the same state directory: start the operator again";
    return fail("operator", `the heartbeat of ${who} is ${seconds} s ahead of this clock`, next);
  }
  return ok("operator", `${who}, heartbeat within ${heartbeatTtlMs / 1000} s`);
}

/** How well tokens are kept. Only the owner of the state directory may look. */
export async function tokenFindings(config: Places): Promise<Finding[]> {
  const { stateDir, authEnabled } = config;
  const auth = join(stateDir, "auth");
  const directories = [auth, join(auth, "tokens"), join(auth, "used"), join(auth, "confirmed")];
  try {
    const tokens = await namesIn(join(auth, "tokens"));
    const files = [...tokens.map((name) => join(auth, "tokens", name)), join(auth, "admin.json")];
    const loose: string[] = [];
    const foreign: string[] = [];
    // A volume of a Pod is root's, and open to the group of the Pod's user.
    const owner = config.store === "kubernetes" ? undefined : (await statusOf(stateDir))?.uid;
    for (const path of [...directories, ...files]) {
      const status = await statusOf(path);
      if (status === undefined) continue;
      if ((status.mode & 0o077) !== 0) loose.push(path);
      if (owner !== undefined && status.uid !== owner) foreign.push(path);
    }
    const findings: Finding[] = [];
    if (loose.length > 0)
      findings.push(fail("tokens", `open to others than their owner: ${loose.join(", ")}`, `chmod -R go= ${auth}`));
    if (foreign.length > 0) {
      const why = `not of the state directory's owner, and so out of the service's reach: ${foreign.join(", ")}`;
      findings.push(fail("tokens", why, `chown -R --reference=${stateDir} ${auth}`));
    }
    if (authEnabled && tokens.length === 0)
      findings.push(
        warn("tokens", "authentication is on, and there is none", "`berth token create --label me --scope admin`"),
      );
    const waiting = (await listTokens(config)).filter((each) => !each.is_confirmed);
    if (waiting.length > 0) findings.push(unconfirmedFinding(waiting, authEnabled));
    if (findings.length === 0) findings.push(ok("tokens", `${tokens.length}, for their owner alone`));
    return findings;
  } catch (error) {
    const code = errorCode(error) ?? errorMessage(error);
    return [warn("tokens", `${auth} cannot be read (${code})`, "run this as the user that runs Berth")];
  }
}

async function listTokens(config: StoreConfig): Promise<readonly TokenView[]> {
  const { openStore } = await import("../../store/open.ts");
  await using tokens = await openStore(config).tokens();
  return await tokens.list();
}

function unconfirmedFinding(waiting: readonly TokenView[], authEnabled: boolean): Finding {
  const names = waiting.map(({ id, label, scope }) => `${id} (${label}, ${scope})`).join(", ");
  const when = authEnabled ? "refused until confirmed" : "refused once authentication is on, until confirmed";
  const next = "`berth token list --confirm` for those that are yours, `berth token revoke ID` for the others";
  return warn("tokens", `made while authentication was off, and ${when}: ${names}`, next);
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return (await readdir(directory)).filter((name) => name.endsWith(".json") && !name.startsWith("."));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

async function statusOf(path: string): Promise<{ readonly mode: number; readonly uid: number } | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
