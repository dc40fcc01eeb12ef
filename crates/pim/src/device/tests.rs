//! Both devices produce the same results.

use super::*;
use nearfield_hardware::modules::{ModuleParameters, ModulePreset};

/// A program that prepends its input to a list and outputs the list. A 13 is a fault, a 14 a panic.
struct PrependProgram;

impl ModuleProgram for PrependProgram {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        for (word, &value) in input.iter().enumerate() {
            module.begin(word);
            match value {
                13 => return Err(ProgramFault::Input { word, value }),
                14 => panic!("fourteen"),
                _ => {}
            }
            let at = module.allocate(2)?;
            let next = module.root();
            module.write(at, &[value, next]);
            module.set_root(at.into());
        }
        let mut at = module.root();
        while at != 0 {
            let node = module.read(at as u32, 2);
            let (value, next) = (node[0], node[1]);
            output.push(value);
            at = next;
        }
        Ok(())
    }
}

fn small_model(modules: usize) -> Model {
    let parameters = ModuleParameters {
        bank_bytes: 1024,
        ..ModulePreset::UpmemMeasured.parameters()
    };
    Model::new(modules, parameters)
}

fn inputs(of: &[&[u64]]) -> Vec<Vec<u64>> {
    of.iter().map(|words| words.to_vec()).collect()
}

fn answers(of: &[&[u64]]) -> Vec<Answered> {
    inputs(of).into_iter().map(Ok).collect()
}

fn behaves(mut device: impl ModuleDevice) {
    assert_eq!(device.modules(), 5);
    let first = inputs(&[&[1], &[2, 3], &[], &[4], &[5]]);
    let answered = device.round(PrependProgram, first);
    assert_eq!(answered, Ok(answers(&[&[1], &[3, 2], &[], &[4], &[5]])));
    assert_eq!(device.counters().useful_bytes, [40, 40]);
    assert_eq!(device.counters().fullest_words, 2);

    let found = device.round(PrependProgram, inputs(&[&[1]]));
    let wrong = RoundError::Inputs {
        found: 1,
        modules: 5,
    };
    assert_eq!(found, Err(wrong));
    let mut long = inputs(&[&[], &[], &[], &[], &[]]);
    long[3] = vec![1; 129];
    let error = device.round(PrependProgram, long).expect_err("too long");
    assert_eq!(
        error.to_string(),
        "1032 bytes for module 3, whose bank has 1024"
    );

    // The other modules do their work and return output, and earlier entries stay readable.
    let bad = inputs(&[&[6], &[7], &[13], &[8, 14], &[9]]);
    let answered = device.round(PrependProgram, bad).expect("begun");
    assert_eq!(answered[0], Ok(vec![6, 1]));
    let errors: Vec<String> = answered
        .iter()
        .filter_map(|answered| answered.as_ref().err())
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            "module 2: word 0 of its input, 0xd, is not a task",
            "module 3: the program has panicked: fourteen"
        ]
    );
    let nothing = || inputs(&[&[], &[], &[], &[], &[]]);
    let all = device.round(PrependProgram, nothing());
    let expected = answers(&[&[6, 1], &[7, 3, 2], &[], &[8, 4], &[9, 5]]);
    assert_eq!(all, Ok(expected));

    // A full bank reports that, and keeps its content.
    let mut full = nothing();
    full[1] = vec![5; 100];
    let answered = device.round(PrependProgram, full).expect("begun");
    let error = answered[1].as_ref().expect_err("full").to_string();
    assert_eq!(
        error,
        "module 1: no room for 2 words: 127 of 128 are in use"
    );
    let all = device.round(PrependProgram, nothing()).expect("begun");
    assert_eq!(all[0], Ok(vec![6, 1]));
    assert_eq!(all[1].as_ref().map(Vec::len), Ok(63));
}

#[test]
fn the_model_behaves() {
    behaves(small_model(5));
}

#[test]
fn workers_behave_however_many_threads_there_are() {
    for threads in [1, 2, 3, 5, 9] {
        behaves(Workers::new(5, 1024, threads));
    }
}

#[test]
fn rounds_of_the_model_take_what_their_parts_take() {
    let mut model = small_model(128);
    let mut inputs: Vec<Vec<u64>> = (0..128).map(|_| vec![1]).collect();
    inputs[7] = vec![1; 20];
    model.round(PrependProgram, inputs).expect("done");
    let counters = model.counters();
    assert_eq!(counters.moved_bytes, [128 * 160, 128 * 160]);
    assert_eq!(counters.useful_bytes, [147 * 8, 147 * 8]);
    assert_eq!((counters.work.writes, counters.work.reads), (147, 147));
    assert!(counters.kernels > counters.kernel);
    let parts = counters.kernel + counters.transfer + counters.launch;
    assert_eq!(counters.time(), parts);
    assert!(model.joules() > 0.0);
    assert_eq!(model.used_bytes(), (128 + 2 * 147) * 8);
}

#[test]
fn one_module_is_a_device_as_well() {
    let mut model = small_model(1);
    assert_eq!(
        model.round(PrependProgram, vec![vec![1]]),
        Ok(vec![Ok(vec![1])])
    );
    let mut workers = Workers::new(1, 1024, 4);
    assert_eq!(
        workers.round(PrependProgram, vec![vec![1]]),
        Ok(vec![Ok(vec![1])])
    );
}

#[test]
fn one_run_says_what_others_would_have_taken() {
    let presets = ModulePreset::ALL.map(ModulePreset::parameters);
    let slow = ModuleParameters {
        launch: presets[0].launch + presets[0].launch,
        ..presets[0]
    };
    let mut all = Model::new(3, presets[0]).also(presets[1]).also(slow);
    let mut alone = presets.map(|parameters| Model::new(3, parameters));
    for number in 0..4_u64 {
        let sent = || inputs(&[&[number], &[7, number], &[]]);
        all.round(PrependProgram, sent()).expect("begun");
        for model in &mut alone {
            model.round(PrependProgram, sent()).expect("begun");
        }
    }
    let times =
        |counters: &DeviceCounters| (counters.time(), counters.kernels, counters.moved_bytes);
    let others: Vec<_> = all.others().map(|(_, counters)| times(counters)).collect();
    assert_eq!(times(all.counters()), times(alone[0].counters()));
    assert_eq!(others[0], times(alone[1].counters()));
    let longer = times(all.counters()).0 + slow.launch + slow.launch;
    assert_eq!(others[1].0, longer);
    assert_ne!(others[0].0, times(all.counters()).0);
}
