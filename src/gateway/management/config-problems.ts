import { relative } from "node:path";
import { slotRefusal } from "../../models/fit/slot-fit.ts";
import type { DeclaredSlot } from "../../store/files/declared-slots.ts";
import type { Diagnostic } from "../../store/store.ts";
import type { ManagementContext } from "./context.ts";
import { emptiedDirectories } from "./emptied-directories.ts";
import { fitFacts } from "./slot-fit.ts";

type Problem = Omit<Diagnostic, "reason"> & { readonly reason: string };

/** A person reads no more of them. */
const mostProblems = 1000;

interface DiagnosticView {
  reason: string;
  file: string;
  line?: number;
  column?: number;
  path?: (string | number)[];
  message: string;
}

/** The problems of manifests by file name, or of the configuration directory, also of models that cannot fit this machine. */
export async function configProblems(
  context: ManagementContext,
  files: Readonly<Record<string, string>> | undefined,
): Promise<DiagnosticView[]> {
  const { configDir } = context.config;
  const { validateDirectory, validateTexts } = await import("../../store/files/validate.ts");
  const found = files === undefined ? await validateDirectory(configDir) : validateTexts(files);
  const emptied = files === undefined ? emptiedDirectories(context) : [];
  const { slotsInDirectory, slotsInTexts } = await import("../../store/files/declared-slots.ts");
  const slots = files === undefined ? await slotsInDirectory(configDir) : slotsInTexts(files);
  const problems: Problem[] = [...found.slice(0, mostProblems), ...emptied, ...(await unfitSlots(context, slots))];
  return problems.map((each) => diagnosticView(each, files === undefined ? configDir : undefined));
}

async function unfitSlots(context: ManagementContext, slots: readonly DeclaredSlot[]): Promise<Problem[]> {
  const facts = fitFacts(context);
  const problems: Problem[] = [];
  for (const { name, spec, ...place } of slots) {
    const refusal = await slotRefusal(name, spec, facts);
    if (refusal === undefined) continue;
    const message = `${refusal.subject} ${refusal.message}`;
    problems.push({ reason: "DoesNotFit", ...place, path: [...refusal.path], message });
  }
  return problems;
}

function diagnosticView(
  { reason, file, line, column, path, message }: Problem,
  configDir: string | undefined,
): DiagnosticView {
  return {
    reason,
    file: configDir === undefined ? file : relative(configDir, file),
    ...(line === undefined ? {} : { line }),
    ...(column === undefined ? {} : { column }),
    ...(path === undefined ? {} : { path: [...path] }),
    message,
  };
}
