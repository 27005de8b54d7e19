/**
 * Folders whose tests may share a process: starting Node and loading the modules of `src/` costs more than most files of
 * these folders. The tests of the other folders start whole Berths, or count what a process has loaded.
 */
export const sharedFolders = [
  "api",
  "cli",
  "engines",
  "gateway",
  "hardware",
  "lib",
  "models",
  "operator",
  "program",
  "runtimes",
  "store",
  "tools",
  "web",
] as const;

/** Few enough that the processes get equal work, and that what a crash hides is soon run again. */
const filesPerGroup = 16;

/** What changes or measures the process of a test: another file in that process would change the result, or be changed. */
const ownProcess: readonly RegExp[] = [
  // Its environment, directory, signals, user, end.
  /\bprocess\.env(?:\.\w+|\[[^\]]+\])\s*=[^=]/,
  /\bdelete process\.env\b/,
  /\bObject\.\w+\(process\b/,
  /\bprocess\.(?:chdir|umask|on|once|exit|abort)\(/,
  /\bprocess\.exitCode\b/,
  /\bprocess\.kill\(process\.pid\b/,
  /\bprocess\.(?:set(?:e?[ug]id|groups)|initgroups)\b/,
  // What all its modules share.
  /\bmock\.(?:timers|method|module|property|getter|setter)\b/,
  /\bglobalThis\b/,
  /\bReflect\.set\(/,
  /\b(?:registerHooks|setDefaultCACertificates|setGlobalDispatcher|syncBuiltinESMExports)\b/,
  // Its memory, time, files and handles.
  /\b(?:cpuUsage|memoryUsage|resourceUsage|getActiveResourcesInfo|eventLoopUtilization|monitorEventLoopDelay)\b/,
  /\/proc\/self\b/,
  /\/support\/(?:cpu-time|out-of-files|timer-count)\.ts"/,
  // A hook or a wait of the whole file would be one of the whole group.
  /^(?:before|after|beforeEach|afterEach)\(/m,
  /^(?:const .*= |let .*= )?await\b/m,
];

/** Whether this text of a test must not share a process with other files. */
export function needsOwnProcess(text: string): boolean {
  return ownProcess.some((pattern) => pattern.test(text));
}

export interface Group {
  readonly name: string;
  readonly paths: readonly string[];
}

export interface Grouping {
  readonly groups: readonly Group[];
  /** Files with a process of their own. */
  readonly alone: readonly string[];
}

/** Divides test files, by path from the root of the repository: each file is in one group, or alone. */
export function groupsOf(files: Readonly<Record<string, string>>): Grouping {
  const alone: string[] = [];
  const folders = new Map<string, string[]>();
  for (const [path, text] of Object.entries(files).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const [, folder = ""] = path.split("/");
    if (!sharedFolders.some((each) => each === folder) || needsOwnProcess(text)) alone.push(path);
    else folders.set(folder, [...(folders.get(folder) ?? []), path]);
  }
  const groups = [...folders].flatMap(([folder, paths]) => {
    const count = Math.ceil(paths.length / filesPerGroup);
    const size = Math.ceil(paths.length / count);
    return Array.from({ length: count }, (_, index) => ({
      name: count === 1 ? folder : `${folder}-${index + 1}`,
      paths: paths.slice(index * size, (index + 1) * size),
    }));
  });
  return { groups, alone };
}
