import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { base } from "../../shared/api.ts";
import { CopyButton } from "../../shared/copy-button.tsx";
import type { Example } from "./example.ts";
import { snippetsOf } from "./snippets.ts";

const storageKey = "berth-playground-language";
/** The language that a person reads, of every kind of request. */
const chosen = signal(keptLanguage());

/** The same request for programs, ready to be pasted. */
export function Code({ example }: { readonly example: Example }): JSX.Element {
  const all = snippetsOf(example, base.href.replace(/\/$/, ""));
  const shown = all.find(({ language }) => language === chosen.value) ?? all[0];
  return (
    <section aria-label="The same from a program">
      <span class="segmented" role="group" aria-label="Language">
        {all.map(({ language }) => (
          <button
            key={language}
            type="button"
            aria-pressed={language === shown?.language}
            onClick={() => choose(language)}
          >
            {language}
          </button>
        ))}
      </span>
      {shown !== undefined && (
        <>
          <p class="quiet">Needs: {shown.needs}</p>
          <div class="code">
            <CopyButton text={shown.text} label={`Copy ${shown.language}`} />
            <pre aria-label={`${shown.language} snippet`} tabIndex={0}>
              {shown.text}
            </pre>
          </div>
        </>
      )}
      <p class="quiet">
        It reads the token from the environment: <code>export BERTH_TOKEN=svc_…</code> first, where authentication is
        on. The page <a href="ui/settings/tokens">Tokens</a> makes one; its scope <code>v1-only</code> is enough for{" "}
        <code>/v1</code>.
      </p>
    </section>
  );
}

function choose(language: string): void {
  chosen.value = language;
  try {
    localStorage.setItem(storageKey, language);
  } catch {
    // Kept until the page is left.
  }
}

function keptLanguage(): string {
  try {
    return localStorage.getItem(storageKey) ?? "";
  } catch {
    return "";
  }
}
