import { effect, signal } from "@preact/signals";
import { Monitor, Moon, Sun } from "lucide";
import type { JSX } from "preact";
import { Icon } from "./icon.tsx";

const themes = { system: Monitor, light: Sun, dark: Moon } as const;
type Theme = keyof typeof themes;
const order = ["system", "light", "dark"] as const satisfies readonly Theme[];
const storageKey = "berth-theme";

/** The person's choice, kept in this browser for both pages; `system` follows the machine. */
const theme = signal<Theme>(keptTheme());

// Before the first paint, which waits for the page's script (`blocking` in its index.html).
effect(() => {
  const root = document.documentElement;
  if (theme.value === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = theme.value;
});

function keptTheme(): Theme {
  try {
    const kept = localStorage.getItem(storageKey);
    return order.find((each) => each === kept) ?? "system";
  } catch {
    return "system";
  }
}

/** Goes on to the next of system, light and dark. */
export function ThemeButton(): JSX.Element {
  const now = theme.value;
  const next = order[(order.indexOf(now) + 1) % order.length] ?? "system";
  const choose = (): void => {
    theme.value = next;
    try {
      localStorage.setItem(storageKey, next);
    } catch {
      // A browser that keeps nothing for this site shows it until the page is left.
    }
  };
  return (
    <button
      type="button"
      class="ghost icon"
      aria-label={`Colours: ${now}. Change to ${next}`}
      title={`Colours: ${now}`}
      onClick={choose}
    >
      <Icon of={themes[now]} />
    </button>
  );
}
