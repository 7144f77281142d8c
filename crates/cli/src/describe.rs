//! `procession completions` and `procession man`: what the program says of itself, made from its own definitions.

use std::io::Write as _;

use clap::{Command, CommandFactory};

use crate::{
    cli::{Cli, CompletionsOptions, ManOptions},
    error::CommandError,
    output::print,
};

/// Prints a completion script.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn completions(options: &CompletionsOptions) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "procession", &mut script);
    print(|out| out.write_all(&script))
}

/// Prints the manual page in roff.
///
/// # Errors
/// [`CommandError::NoSuchCommand`]; when standard output cannot be written.
pub(crate) fn man(options: &ManOptions) -> Result<u8, CommandError> {
    let page = page(options.command.as_deref())?;
    print(|out| page.render(out))
}

fn page(named: Option<&str>) -> Result<clap_mangen::Man, CommandError> {
    let mut program = Cli::command();
    // Global options are handed down.
    program.build();
    let Some(named) = named else {
        return Ok(clap_mangen::Man::new(program));
    };
    let found: Option<&Command> = program.find_subcommand(named);
    let Some(command) = found else {
        return Err(CommandError::NoSuchCommand {
            name: named.to_owned(),
        });
    };
    let title = format!("procession-{named}");
    Ok(clap_mangen::Man::new(command.clone()).title(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(named: Option<&str>) -> String {
        let mut page_text = Vec::new();
        page(named)
            .expect("a command")
            .render(&mut page_text)
            .expect("memory");
        String::from_utf8(page_text).expect("text")
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let all = rendered(None);
        let mut program = Cli::command();
        program.build();
        for command in program
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
        {
            let name = command.get_name();
            assert!(all.contains(name), "{name}");
            let own = rendered(Some(name));
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                let escaped = option.replace('-', "\\-");
                assert!(own.contains(&escaped), "{name}: --{option}\n{own}");
            }
        }
        assert!(page(Some("nothing")).is_err());
    }
}
