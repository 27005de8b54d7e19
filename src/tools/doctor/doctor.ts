import type { HardwareFacts } from "../../api/hardware.ts";
import { accessFindings } from "./access.ts";
import { become, type Owner } from "../../program/owner.ts";
import { readSettings, type Settings } from "../../program/settings.ts";
import { clusterFindings, configurationFindings, settingsFindings } from "./configuration.ts";
import { engineFindings } from "./engines.ts";
import { fail, type Finding } from "./finding.ts";
import { gpuFindings } from "./gpu.ts";
import { engineUserFinding, hardwareFindings, nodeFinding } from "./host.ts";
import { portFindings } from "./network.ts";
import { modelsFindings, operatorFindings, stateFindings, tokenFindings } from "./state.ts";

export interface DoctorOptions {
  readonly env: NodeJS.ProcessEnv;
  /** The version of Node, such as 24.1.0. */
  readonly nodeVersion: string;
  readonly uid: number | undefined;
  /** Program and arguments of the embedded engine, where it is installed. */
  readonly embedded: (stateDir: string) => readonly string[] | undefined;
  readonly probe: (settings: Settings) => Promise<HardwareFacts>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** `berth doctor`: checks the requirements of Berth on this machine one by one, running or not. */
export async function* doctorFindings(options: DoctorOptions): AsyncGenerator<Finding> {
  const { env, nodeVersion, uid, probe, now } = options;
  yield nodeFinding(nodeVersion);
  let settings: Settings;
  let engineUid = uid;
  try {
    // As the service's user, not as root: a program in another user's berth.toml runs as that user.
    const takeOwner = async (owner: Owner): Promise<void> => {
      await become(owner, env);
      engineUid = owner.uid;
    };
    settings = await readSettings(env, { takeOwner, skipsOwnerChecks: true });
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "SettingsError") throw error;
    const next = "correct it, and run the check again: the rest follows from the settings";
    for (const line of error.message.split("\n")) yield fail("settings", line, next);
    return;
  }
  const { config, origins } = settings;
  yield* settingsFindings(settings);
  const { findings, slots } = await (config.store === "kubernetes"
    ? clusterFindings()
    : configurationFindings(config.configDir));
  yield* findings;
  yield* await stateFindings(config);
  yield* await modelsFindings(config);
  const operator = await operatorFindings(config, now());
  yield* operator.findings;
  yield* await portFindings(config, operator.isRunning);
  yield* await tokenFindings(config);
  const isPasswordInFile = config.adminPassword !== undefined && origins["adminPassword"] === "file";
  yield* await accessFindings(config, isPasswordInFile);
  yield* await engineFindings(config, { env, slots, embedded: options.embedded(config.stateDir) });
  yield* await engineUserFinding(engineUid, config.engineUser);
  const facts = await probe(settings);
  yield* await hardwareFindings(facts);
  yield* await gpuFindings(config, { env, slots, facts });
}
